import torch
import torch_xla
import torch_xla.core.xla_model as xm

from tasks import TASKS, build_loaders, build_model, build_optimizers
from steps import evaluate_task, train_step

STEPS = 12


def cycle(loader):
    while True:
        for batch in loader:
            yield batch


def main():
    torch.manual_seed(9)
    torch_xla.manual_seed(9)
    device = torch_xla.device()

    model = build_model().to(device)
    optimizers = build_optimizers(model)
    loaders = build_loaders()
    streams = {task: cycle(loader) for task, loader in loaders.items()}

    for step in range(STEPS):
        task = TASKS[step % len(TASKS)]
        batch = next(streams[task])
        loss = train_step(model, optimizers, task, batch, device)
        torch_xla.sync()
        if step % 4 == 3:
            print(f"step {step} task {task} loss {loss.item():.4f}")

    for task in TASKS:
        print(task, f"{evaluate_task(model, task, loaders[task], device):.4f}")
    xm.save({"model": model.state_dict(), "steps": STEPS}, "multitask.pt")


if __name__ == "__main__":
    main()
