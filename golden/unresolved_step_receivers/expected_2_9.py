import hydra
import timm
import torch
import torch_xla
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import NativeScaler

from project.registry import build


class Agent:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch.device(cfg.device or "xla")
        self.parts = {name: build(spec) for name, spec in cfg.parts.items()}
        self.net = timm.create_model(cfg.model, pretrained=False).to(self.device)
        self.optimizer = create_optimizer_v2(self.net, opt=cfg.opt, lr=cfg.lr)
        self.scheduler, _ = create_scheduler_v2(self.optimizer, sched=cfg.sched)
        self.scaler = NativeScaler()

    def advance(self, batch):
        images, labels = batch["image"].to(self.device), batch["label"].to(self.device)
        with torch.autocast("xla", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(self.net(images), labels)
        self.optimizer.zero_grad()
        # backward, clipping and step in one call
        self.scaler(loss, self.optimizer, clip_grad=self.cfg.clip)
        return loss

    def play(self, env):
        state, done = env.reset(), False
        while not done:
            action = self.net(torch.as_tensor(state, device=self.device)).argmax(-1)
            state, reward, done, info = env.step(action.item())
            torch_xla.sync()
        for part in self.parts.values():
            part.step()

    def finish(self, epoch):
        self.scheduler.step(epoch)
        getattr(self.parts["clock"], self.cfg.method)()


@hydra.main(config_path="conf", config_name="agent", version_base=None)
def main(cfg):
    torch.manual_seed(cfg.seed)
    torch_xla.manual_seed(cfg.seed)
    agent = Agent(cfg)
    loader = build(cfg.data)
    env = build(cfg.env)
    for epoch in range(cfg.epochs):
        for n, batch in enumerate(loader):
            loss = agent.advance(batch)
            torch_xla.sync()
            if n % cfg.log_every == 0:
                print(epoch, n, loss.item())
        agent.play(env)
        agent.finish(epoch)


if __name__ == "__main__":
    main()
