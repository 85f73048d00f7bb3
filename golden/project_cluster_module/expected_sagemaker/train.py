import argparse

import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from models import Critic, Generator, follow
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16, help="of all tasks together")
    parser.add_argument("--critic-steps", type=int, default=2)
    parser.add_argument("--noise", type=int, default=4)
    parser.add_argument("--decay", type=float, default=0.9)
    return parser.parse_args()


def main():
    opt = options()
    gpu = xm.xla_device()
    torch.manual_seed(11)
    xm.set_rng_state(11)
    generator, critic = Generator(opt.noise).to(gpu), Critic().to(gpu)
    average = Generator(opt.noise).to(gpu)
    average.load_state_dict(generator.state_dict())
    average.requires_grad_(False)
    xm.collective_broadcast([*generator.parameters(), *generator.buffers()])
    xm.collective_broadcast([*critic.parameters(), *critic.buffers()])
    for_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    for_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    data = TensorDataset(torch.randn(96, 2) * 0.3 + 1)
    sampler = DistributedSampler(data, num_replicas=cluster.size, rank=cluster.rank, shuffle=True)
    loader = DataLoader(data, batch_size=opt.batch_size // cluster.size, sampler=sampler)
    loader = pl.MpDeviceLoader(loader, gpu)
    step = 0
    for epoch in range(opt.epochs):
        sampler.set_epoch(epoch)
        for (real,) in loader:
            z = torch.randn(real.size(0), opt.noise, device=gpu)
            for_critic.zero_grad()
            critic_loss = critic(generator(z).detach()).mean() - critic(real).mean()
            critic_loss.backward()
            xm.optimizer_step(for_critic)
            for p in critic.parameters():
                p.data.clamp_(-0.05, 0.05)
            if step % opt.critic_steps == 0:
                for_generator.zero_grad()
                critic.requires_grad_(False)
                loss = -critic(generator(z)).mean()
                loss.backward()
                xm.optimizer_step(for_generator)
                critic.requires_grad_(True)
                follow(generator, average, opt.decay)
            step += 1
        show("epoch", epoch, "critic", round(mean_of_all(critic_loss).item(), 4))
    xm.rendezvous("main")
    models = {"generator": generator, "critic": critic, "average": average}
    xm.save({name: model.state_dict() for name, model in models.items()}, "gan.pt")


def _mp_fn(index):
    global cluster, mean_of_all, show
    import cluster
    from metrics import mean_of_all, show

    main()


if __name__ == "__main__":
    _mp_fn(0)
