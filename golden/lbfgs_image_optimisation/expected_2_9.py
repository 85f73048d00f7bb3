import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch_xla

device = torch_xla.device()
torch.set_default_dtype(torch.float32)
torch.manual_seed(19)
torch_xla.manual_seed(19)


def gram_matrix(features):
    b, c, h, w = features.size()
    flat = features.view(b * c, h * w)
    return torch.mm(flat, flat.t()).div(h * w)


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = mean.clone().detach().view(-1, 1, 1)
        self.std = std.clone().detach().view(-1, 1, 1)

    def forward(self, img):
        return (img - self.mean) / self.std


def build_extractor():
    mean = torch.tensor([0.5, 0.4, 0.4]).to(device)
    std = torch.tensor([0.2, 0.2, 0.3]).to(device)
    cnn = nn.Sequential(
        Normalization(mean, std),
        nn.Conv2d(3, 6, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(6, 8, 3, stride=2, padding=1),
        nn.Tanh(),
    )
    return cnn.to(device).eval().requires_grad_(False)


def run_style_transfer(cnn, content_img, style_img, input_img, num_steps=10):
    content_target = cnn(content_img).detach()
    style_target = gram_matrix(cnn(style_img)).detach()
    input_img.requires_grad_(True)
    optimizer = optim.LBFGS([input_img], max_iter=6, lr=0.5)

    run = [0]
    while run[0] <= num_steps:

        def closure():
            # correct the values of updated input image
            with torch.no_grad():
                input_img.clamp_(0, 1)
            optimizer.zero_grad()
            features = cnn(input_img)
            style_score = 10.0 * F.mse_loss(gram_matrix(features), style_target)
            content_score = F.mse_loss(features, content_target)
            loss = style_score + content_score
            loss.backward()
            run[0] += 1
            if run[0] % 6 == 0:
                print(
                    "run {}: style {:.5f} content {:.5f}".format(
                        run[0], style_score.item(), content_score.item()
                    )
                )
            return loss

        optimizer.step(closure)
        torch_xla.sync()

    with torch.no_grad():
        input_img.clamp_(0, 1)
    return input_img


content = torch.rand(1, 3, 12, 12).to(device)
style = torch.rand(1, 3, 12, 12, device=device) ** 3
picture = content.clone()
output = run_style_transfer(build_extractor(), content, style, picture)
print("mean of the picture %.4f" % output.mean().item())
torch.save(output.detach().cpu(), "picture.pt")
