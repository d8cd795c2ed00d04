"""Trains a small classifier on two spirals, by one process or by many that share each batch.

Every process takes its part of the same global batch, and PyTorch averages their gradients: the loss
follows the same curve whatever the number of processes.
"""
import argparse
import math
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

try:
    from trainyard import Run
    run = Run.get_context()
except ImportError:  # Outside of a run: `python3 train.py`.
    run = None

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch", type=int, default=64, help="examples per step, all processes together")
parser.add_argument("--lr", type=float, default=0.005)
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

rank = int(os.environ.get("RANK", 0))
world = int(os.environ.get("WORLD_SIZE", 1))
if args.batch % world != 0:
    raise SystemExit(f"--batch {args.batch} cannot be shared out evenly among {world} processes")


def spirals(count, generator):
    """Two arms around each other, and which of them each point is on."""
    label = torch.arange(count) % 2
    turn = 3 * math.pi * torch.rand(count, generator=generator).sqrt()
    angle = turn + math.pi * label
    points = torch.stack((turn * angle.cos(), turn * angle.sin()), dim=1)
    return (points + 0.2 * torch.randn(count, 2, generator=generator)) / 5, label


def mean_over_processes(value):
    if world > 1:
        dist.all_reduce(value)
    return value.item() / world


torch.set_num_threads(1)
torch.manual_seed(args.seed)  # The same first weights everywhere.
generator = torch.Generator().manual_seed(args.seed)
points, labels = spirals(1024, generator)
model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64),
                            torch.nn.Tanh(), torch.nn.Linear(64, 2))
if world > 1:
    dist.init_process_group("gloo")  # By MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE.
    model = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
started = time.monotonic()

step = 0
for epoch in range(args.epochs):
    order = torch.randperm(len(points), generator=generator)  # The same everywhere.
    for batch in order.split(args.batch):
        mine = batch[rank::world]
        loss = torch.nn.functional.cross_entropy(model(points[mine]), labels[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        whole = mean_over_processes(loss.detach())
        if rank == 0 and run:
            run.log("loss", whole, step=step)
        step += 1
    with torch.no_grad():
        right = (model(points[rank::world]).argmax(1) == labels[rank::world]).double().mean()
    accuracy = mean_over_processes(right)
    if rank == 0:
        print(f"epoch {epoch}: loss {whole:.4f}, accuracy {accuracy:.3f}", flush=True)
        if run:
            run.log("accuracy", accuracy, step=epoch)

if rank == 0:
    os.makedirs("outputs", exist_ok=True)
    torch.save(getattr(model, "module", model).state_dict(), "outputs/model.pt")
    print(f"{world} processes, {step} steps in {time.monotonic() - started:.1f} s", flush=True)
if world > 1:
    dist.destroy_process_group()
