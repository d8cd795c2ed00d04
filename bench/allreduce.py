"""What data-parallel training does between its steps: sums of a few megabytes over all ranks (gloo)."""
import os
import sys

import torch
import torch.distributed

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
values = torch.ones(1 << 18)
for _ in range(int(sys.argv[1])):
    torch.distributed.all_reduce(values)
    values /= torch.distributed.get_world_size()
total = torch.tensor([float(rank)])
torch.distributed.all_reduce(total)
torch.distributed.barrier()
if rank == 0:
    print(f"ranks {torch.distributed.get_world_size()} sum {total.item():.0f} mean {values[0].item():.1f}", flush=True)
torch.distributed.destroy_process_group()
