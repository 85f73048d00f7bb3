import torch
import torch_xla


class DataPrefetcher:
    def __init__(self, loader):
        self.loader = iter(loader)
        device = torch_xla.device()
        self.mean = (
            torch.tensor([0.485 * 255, 0.456 * 255, 0.406 * 255])
            .to(device)
            .view(1, 3, 1, 1)
        )
        self.std = (
            torch.tensor([0.229 * 255, 0.224 * 255, 0.225 * 255])
            .to(device)
            .view(1, 3, 1, 1)
        )
        self.preload()

    def preload(self):
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            self.next_input = None
            self.next_target = None
            return
        device = torch_xla.device()
        self.next_input = self.next_input.to(device, non_blocking=True)
        self.next_target = self.next_target.to(device, non_blocking=True)
        self.next_input = self.next_input.float()
        self.next_input = self.next_input.sub_(self.mean).div_(self.std)

    def next(self):
        input = self.next_input
        target = self.next_target
        self.preload()
        return input, target
