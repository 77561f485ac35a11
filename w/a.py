import torch
x = torch.load("a")
