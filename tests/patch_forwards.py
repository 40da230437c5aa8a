"""Forwards in which an activation follows a Linear or a GroupNorm, and others that only look alike."""

import functools

import torch
import torch.nn.functional as F
from torch import nn


class Form(nn.Module):
    """Has the modules that all forms share; they differ in the text of their forward."""

    def __init__(self):
        super().__init__()
        self.norm, self.first, self.second = nn.GroupNorm(2, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.act, self.drop, self.kind, self.none = nn.SiLU(), nn.Dropout(0.0), "plain", None


class Lines(Form):
    def forward(self, x):
        x = self.norm(x)
        x = self.act(x)
        return x


class Nested(Form):
    def forward(self, x):
        return self.second(self.drop(self.act(self.first(x + 1))))


class Returned(Form):
    def forward(self, x):
        hidden = self.first(x)
        return self.second(self.act(hidden))


class Functions(Form):
    def forward(self, x):
        x = F.gelu(self.first(x))
        x = self.second(x)
        x = torch.relu(x)
        return x


class Branches(Form):
    """The activation follows both branches; only one of them ends in a norm."""

    def forward(self, x):
        if self.kind == "scaled":
            x = self.norm(x)
            x = x * 2
        elif self.kind == "plain":
            x = self.norm(x)
        elif self.kind == "refused":
            raise ValueError("refused")
        x = self.act(x)
        return self.first(x)


class Optional(Form):
    def forward(self, x):
        x = self.first(x)
        if self.act is not None and self.kind != "none":
            x = self.act(x)
        else:
            x = x + 1
        return self.second(x)


class Loop(Form):
    def forward(self, x):
        for layer in range(2):
            if layer:
                x = self.act(self.first(x))
            else:
                x = self.second(x)
                x = self.act(x)
        return x


def doubled(forward):
    @functools.wraps(forward)
    def call(self, *args, **kwargs):
        return 2 * forward(self, *args, **kwargs)

    return call


class Decorated(Form):
    @doubled
    def forward(self, x, *, more=1):
        return self.act(self.first(x)) + more


class Inherited(Nested):
    def forward(self, x):
        return self.second(self.act(self.first(super().forward(x))))


class Private(Form):
    """Names that Python changes, and a function within."""

    def __init__(self):
        super().__init__()
        self.__hidden = nn.Linear(8, 8)

    def forward(self, x):
        add = lambda y: y + x  # noqa: E731
        return add(self.act(self.first(self.__hidden(x))))


# (class, how many activations are computed by themselves, before and after)
FUSED = [
    (Lines, 1, 0),
    (Nested, 1, 0),
    (Returned, 1, 0),
    (Functions, 2, 0),
    (Branches, 1, 0),
    (Optional, 1, 0),
    (Loop, 2, 0),
    (Decorated, 1, 0),
    (Inherited, 2, 1),
    (Private, 1, 0),
]


class Between(Form):
    def forward(self, x):
        x = self.norm(x)
        x = x * 2
        return self.act(x)


class UsedAgain(Form):
    def forward(self, x):
        hidden = self.first(x)
        return self.second(hidden) + self.act(hidden)


class Multiplied(Form):
    def forward(self, x):
        x = self.first(x)
        return x.mul(self.act(x))


class TwoNames(Form):
    def forward(self, x):
        hidden = self.first(x)
        x = self.act(hidden)
        return x + hidden


class Seen(Form):
    """A function within sees the value that comes between."""

    def forward(self, x):
        def seen():
            return x

        x = self.first(x)
        x = self.act(x)
        return x + seen()


class Tried(Form):
    def forward(self, x):
        try:
            x = self.first(x)
            x = self.act(x)
        except ValueError:
            return x
        return x


class Replaced(Form):
    def forward(self, x):
        self = Lines() if self.none else self
        return self.act(self.first(x))


class Arguments(Form):
    def forward(self, x):
        return F.silu(self.first(x), inplace=True)


LEFT = [Between, UsedAgain, Multiplied, TwoNames, Seen, Tried, Replaced, Arguments]
