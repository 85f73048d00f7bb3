import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

# Hyper-parameters
sequence_length = 14
input_size = 6
hidden_size = 20
num_layers = 2
num_classes = 4
batch_size = 16
num_epochs = 3
learning_rate = 0.01

# Device configuration
device = torch_xla.device()
torch.manual_seed(12)
torch_xla.manual_seed(12)


def gestures(n):
    labels = torch.randint(0, num_classes, (n,))
    t = torch.arange(sequence_length).float().view(1, -1, 1)
    speed = (labels.float() + 1).view(-1, 1, 1) * 0.35
    phase = torch.rand(n, 1, input_size)
    return TensorDataset(
        torch.cos(speed * t + phase)
        + 0.1 * torch.randn(n, sequence_length, input_size),
        labels,
    )


train_loader = DataLoader(dataset=gestures(128), batch_size=batch_size, shuffle=True)
train_loader = pl.MpDeviceLoader(train_loader, device)
test_loader = DataLoader(dataset=gestures(48), batch_size=batch_size, shuffle=False)
test_loader = pl.MpDeviceLoader(test_loader, device)


# Recurrent neural network (many-to-one)
class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, num_layers, num_classes):
        super(RNN, self).__init__()
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True)
        self.fc = nn.Linear(hidden_size, num_classes)

    def forward(self, x):
        # Set initial hidden and cell states
        h0 = torch.zeros(self.num_layers, x.size(0), self.hidden_size).to(device)
        c0 = torch.zeros(self.num_layers, x.size(0), self.hidden_size).to(device)
        out, _ = self.lstm(x, (h0, c0))
        return self.fc(out[:, -1, :])


model = RNN(input_size, hidden_size, num_layers, num_classes).to(device)

# Loss and optimizer
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)

# Train the model
total_step = len(train_loader)
for epoch in range(num_epochs):
    for i, (frames, labels) in enumerate(train_loader):
        frames = frames.reshape(-1, sequence_length, input_size)

        # Forward pass
        outputs = model(frames)
        loss = criterion(outputs, labels)

        # Backward and optimize
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)

        if (i + 1) % 4 == 0:

            def log_step(epoch, i, loss):
                print(
                    "Epoch [{}/{}], Step [{}/{}], Loss: {:.4f}".format(
                        epoch + 1, num_epochs, i + 1, total_step, loss.item()
                    )
                )

            xm.add_step_closure(log_step, args=(epoch, i, loss))

# Test the model
model.eval()
with torch.no_grad():
    correct = 0
    total = 0
    for frames, labels in test_loader:
        frames = frames.reshape(-1, sequence_length, input_size)
        outputs = model(frames)
        _, predicted = torch.max(outputs.data, 1)
        total += labels.size(0)
        correct += (predicted == labels).sum()
    correct = int(correct)
    print("Accuracy on {} test gestures: {} %".format(total, 100 * correct / total))

# Save the model checkpoint
xm.save(model.state_dict(), "model.ckpt")
