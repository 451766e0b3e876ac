"""Models with a loop over a size, whose steps are one body."""

from __future__ import annotations

import torch
from torch.nn import functional


class Model(torch.nn.Module):
    """A model with parts of each kind; `counted` is what a step could leave behind."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.gru = torch.nn.GRUCell(4, 4)
        self.lstm = torch.nn.LSTMCell(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.table = torch.nn.Parameter(torch.rand(4, 4))
        self.counted = [0]
        self.taken = 0
        self.last = torch.zeros(4)


class Recurrent(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        outs = []
        for i in range(x.shape[1]):
            h = self.gru(x[:, i], h)
            outs.append(h)
        return torch.stack(outs, dim=1), h


class TwoStates(Model):
    def forward(self, x):
        b, n, _ = x.shape
        h, c = x.new_zeros(b, 4), x.new_zeros(b, 4)
        for t in range(n):
            h, c = self.lstm(x[:, t], (h, c))
        return h, c


class Selective(Model):
    """The scan of a state space model."""

    def forward(self, x):
        decay = torch.exp(-functional.softplus(x @ self.table))
        h = torch.zeros(x.shape[0], 4)
        ys = []
        for t in range(x.shape[1]):
            h = decay[:, t] * h + x[:, t, :]
            ys.append((h * x[:, t]).sum(-1, keepdim=True))
        return torch.cat(ys, dim=1)


class FromTheSecondRow(Model):
    """The forward pass of a conditional random field; without gradients, since after no step there are none."""

    def __init__(self):
        super().__init__()
        self.requires_grad_(requires_grad=False)

    def forward(self, x):
        score = x[:, 0]
        for i in range(1, x.shape[1]):
            score = torch.logsumexp(score.unsqueeze(2) + self.table + x[:, i].unsqueeze(1), 1)
        return score.logsumexp(1)


class Stacked(Model):
    def forward(self, x):
        for _ in range(2):
            h, outs = torch.zeros(x.shape[0], 4), []
            for i in range(x.shape[1]):
                h = self.gru(x[:, i], h)
                outs.append(h)
            x = torch.stack(outs, 1)
        return x


class UnderTheNameOfTheList(Model):
    """The fault: a list whose name is later given to the joined rows was taken for one that is used otherwise."""

    def forward(self, x):
        for _ in range(2):
            h, x_rows = torch.zeros(x.shape[0], 4), []
            for i in range(x.shape[1]):
                h = self.gru(x[:, i], h)
                x_rows.append(h)
            x_rows = torch.stack(x_rows, dim=1)
            x = x_rows
        return x_rows


class OfNoState(Model):
    def forward(self, x):
        outs = []
        for i in range(x.shape[-1]):
            row = functional.relu(x[..., i])
            outs.append(row)
        return torch.stack(outs, -1)


class Filling(Model):
    def forward(self, x):
        y = torch.zeros_like(x)
        h = x.sum(1)
        for i in range(x.shape[1]):
            h = torch.tanh(h + x[:, i])
            y[:, i] = h
        return y


class AddingInPlace(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        begun = h
        for i in range(x.shape[1]):
            h += x[:, i]
        return h, begun


class FromANumber(Model):
    def forward(self, x):
        total = 0
        for i in range(x.shape[1]):
            total = total + x[:, i]
        return total


class Neighbours(Model):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1] - 1):
            h = h * 0.5 + (x[:, i + 1] - x[:, i]).abs()
        return h


class OfNoRow(Model):
    def forward(self, x):
        h = x.sum(1)
        for _ in range(x.shape[1]):
            h = torch.tanh(h @ self.table)
        return h


class OfTheLastStep(Model):
    def forward(self, x):
        t = torch.zeros(x.shape[0], 4)
        for i in range(x.shape[1]):
            t = x[:, i] * 2
        return t


ONE_BODY = [
    *(Recurrent, TwoStates, Selective, FromTheSecondRow, Stacked, Filling, AddingInPlace),
    *(FromANumber, Neighbours, OfNoRow, OfTheLastStep, UnderTheNameOfTheList),
]
