"""A training program that resumes exactly: AdamW, StepLR, a GradScaler that backs off, dropout, shuffling, noise of
numpy and of Python. `LOSE` names one part that loading leaves out; tests write copies of this file with other values.
"""

import random
from pathlib import Path

import numpy as np
import torch
from torch import nn

LOSE = ""
SCALED = True
ROWS, BATCH = 40, 8


def make_state():
    random.seed(3)
    np.random.seed(4)
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(0)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5),
        "scaler": torch.amp.GradScaler("cpu", enabled=SCALED, init_scale=2.0**127, growth_interval=3),
        "step": 0,
        "order": None,
        "data": torch.randn(ROWS, 6, generator=generator),
        "labels": torch.randn(ROWS, 1, generator=generator),
    }


def train_step(state):
    start = state["step"] * BATCH % ROWS
    if start == 0:
        state["order"] = torch.randperm(ROWS)
    rows = state["order"][start : start + BATCH]
    noise = torch.from_numpy(np.random.standard_normal((BATCH, 6)).astype(np.float32))
    x = (state["data"][rows] + 0.1 * noise) * random.uniform(0.9, 1.1) * (1 + 0.01 * state["step"])
    loss = nn.functional.mse_loss(state["model"](x), state["labels"][rows])
    state["optimizer"].zero_grad()
    state["scaler"].scale(loss).backward()
    state["scaler"].step(state["optimizer"])
    state["scaler"].update()
    state["scheduler"].step()
    state["step"] += 1
    return loss.detach()


def save_state(state, path):
    held = {name: state[name].state_dict() for name in ("model", "optimizer", "scheduler", "scaler")}
    held |= {"step": state["step"], "order": state["order"]}
    held |= {"torch": torch.get_rng_state(), "numpy": np.random.get_state(), "python": random.getstate()}
    torch.save(held, path)


def load_state(state, path):
    held = torch.load(Path(path), weights_only=False)
    for name in ("model", "optimizer", "scheduler", "scaler"):
        if name != LOSE:
            state[name].load_state_dict(held[name])
    state |= {name: held[name] for name in ("step", "order") if name != LOSE}
    restore = {"torch": torch.set_rng_state, "numpy": np.random.set_state, "python": random.setstate}
    for name, give in restore.items():
        if f"rng.{name}" != LOSE:
            give(held[name])
