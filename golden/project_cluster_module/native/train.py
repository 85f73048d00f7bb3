import argparse

import cluster
import torch
import torch.distributed as dist
from metrics import mean_of_all, show
from models import Critic, Generator, follow
from torch.nn.parallel import DistributedDataParallel as DDP
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
    dist.init_process_group("nccl", init_method="env://", world_size=cluster.size, rank=cluster.rank)
    torch.cuda.set_device(cluster.local_rank)
    gpu = torch.device("cuda")
    torch.manual_seed(11)
    generator, critic = Generator(opt.noise).to(gpu), Critic().to(gpu)
    average = Generator(opt.noise).to(gpu)
    average.load_state_dict(generator.state_dict())
    average.requires_grad_(False)
    generator = DDP(generator, device_ids=[cluster.local_rank])
    critic = DDP(critic, device_ids=[cluster.local_rank])
    for_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    for_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    data = TensorDataset(torch.randn(96, 2) * 0.3 + 1)
    sampler = DistributedSampler(data, num_replicas=cluster.size, rank=cluster.rank, shuffle=True)
    loader = DataLoader(data, batch_size=opt.batch_size // cluster.size, sampler=sampler, pin_memory=True)
    step = 0
    for epoch in range(opt.epochs):
        sampler.set_epoch(epoch)
        for (real,) in loader:
            real = real.to(gpu, non_blocking=True)
            z = torch.randn(real.size(0), opt.noise, device=gpu)
            for_critic.zero_grad()
            critic_loss = critic(generator(z).detach()).mean() - critic(real).mean()
            critic_loss.backward()
            for_critic.step()
            for p in critic.parameters():
                p.data.clamp_(-0.05, 0.05)
            if step % opt.critic_steps == 0:
                for_generator.zero_grad()
                critic.requires_grad_(False)
                loss = -critic(generator(z)).mean()
                loss.backward()
                for_generator.step()
                critic.requires_grad_(True)
                follow(generator.module, average, opt.decay)
            step += 1
        show("epoch", epoch, "critic", round(mean_of_all(critic_loss).item(), 4))
    dist.barrier()
    if cluster.rank == 0:
        models = {"generator": generator.module, "critic": critic.module, "average": average}
        torch.save({name: model.state_dict() for name, model in models.items()}, "gan.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
