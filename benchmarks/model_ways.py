"""The ways to run a model that models.py measures: inference, a training step, and greedy decoding with a cache."""

import torch

WAYS = ("inference", "training", "decoding")
# Models with a cache.
DECODERS = ("Llama", "Qwen3", "GPT-2", "Mixtral")
# Tokens of the prompt, and new ones.
LENGTHS = {"tiny": (5, 3), "small": (128, 32), "full": (128, 32)}
STEPS = 3  # of training, until losses are compared


class Inference:
    """Runs a module without gradients. wrap: makes of a function the one that is called, as torch.compile does."""

    results = 1  # a call's time is divided by them

    def __init__(self, made, module, wrap, setup):
        self.made, self.module = made, module.eval()
        self.function = wrap(lambda module: made.result(module(**made.inputs)))

    @torch.no_grad()
    def run(self):
        return self.function(self.module)

    def reference(self):
        """Returns what loss() of another module needs for the same result."""

    @torch.no_grad()
    def loss(self, reference):
        return self.made.loss(self.run()).item()

    def state(self):
        """Returns the tensors that stay from call to call, without those of the module."""
        return list(self.made.inputs.values())


class Training:
    """Runs steps: the loss, its gradients, and the optimizer, setup.optimizer(parameters)."""

    results = 1

    def __init__(self, made, module, wrap, setup):
        self.made, self.module = made, module.train()
        self.function = wrap(lambda module: made.own_loss(module))
        self.parameters = list(module.parameters())
        self.optimizer, self.make_optimizer = setup.optimizer(self.parameters), setup.make_optimizer

    def run(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.function(self.module)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def reference(self):
        return [parameter.detach().clone() for parameter in self.parameters]

    def loss(self, reference):
        """Returns the loss some steps after these parameters, so that it depends on gradients, too."""
        own, self.optimizer = self.optimizer, self.make_optimizer(self.parameters)
        with torch.no_grad():
            for parameter, value in zip(self.parameters, reference):
                parameter.copy_(value)
        for _ in range(STEPS):
            loss = self.run()
        self.optimizer = own
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()

    def state(self):
        states = [each for state in self.optimizer.state.values() for each in state.values()]
        return [*self.made.inputs.values(), *self.made.labels.values(), *states]


def next_token(module, token, cache):
    """Returns the likeliest next token, and the logits."""
    logits = module(input_ids=token, past_key_values=cache, use_cache=True).logits[:, -1]
    return logits.argmax(-1, keepdim=True), logits


class Rewound:
    """A cache that goes back to the state in which it was given. A static one counts its tokens in place; the tensors of
    a dynamic one are replaced by each token."""

    def __init__(self, cache):
        self.cache = cache
        self.values = [
            (layer, name, value, value.clone() if counts(value) else None)
            for layer in cache.layers
            for name, value in vars(layer).items()
        ]

    def rewind(self):
        for layer, name, value, count in self.values:
            if getattr(layer, name) is not value:
                setattr(layer, name, value)
            if count is not None:
                value.copy_(count)

    def tensors(self):
        return [value for _, _, value, _ in self.values if isinstance(value, torch.Tensor)]


def counts(value):
    return isinstance(value, torch.Tensor) and not value.is_floating_point()


class Decoding:
    """Finds new tokens one by one behind a prompt, batch 1. setup.static: in a cache whose tensors stay; setup.captured:
    by a graph of the GPU."""

    @torch.no_grad()
    def __init__(self, made, module, wrap, setup):
        from transformers import DynamicCache, StaticCache

        length, self.results = LENGTHS[setup.scale]
        self.module, self.function = module.eval(), wrap(next_token)
        device = made.inputs["input_ids"].device
        generator = torch.Generator().manual_seed(0)
        prompt = torch.randint(0, module.config.vocab_size, (1, length), generator=generator).to(device)
        config = module.config
        cache = StaticCache(config=config, max_cache_len=length + self.results) if setup.static else DynamicCache()
        logits = module(input_ids=prompt, past_key_values=cache, use_cache=True).logits[:, -1]
        self.cache, self.first = Rewound(cache), logits.argmax(-1, keepdim=True)
        self.token, self.next = self.first.clone(), self.step
        if setup.captured:
            self.capture()

    def step(self):
        """Replaces the token by the next one."""
        token, self.logits = self.function(self.module, self.token, self.cache.cache)
        self.token.copy_(token)

    def capture(self):
        import gpu

        for _ in range(3):
            self.run()
        self.cache.rewind()
        try:
            self.next = gpu.captured(self.step, 1).replay
        except RuntimeError:
            torch.cuda.synchronize()  # so that other variants go on
            raise

    @torch.no_grad()
    def run(self):
        self.cache.rewind()
        self.token.copy_(self.first)
        for _ in range(self.results):
            self.next()
        return self.token

    @torch.no_grad()
    def reference(self):
        """Returns the tokens that are found, the first one included."""
        self.cache.rewind()
        self.token.copy_(self.first)
        tokens = [self.first]
        for _ in range(self.results):
            self.next()
            tokens.append(self.token.clone())
        return tokens

    @torch.no_grad()
    def loss(self, reference):
        """Returns the loss of the logits behind given tokens, each of which is to predict the next one."""
        self.cache.rewind()
        losses = []
        for token, following in zip(reference, reference[1:]):
            self.token.copy_(token)
            self.next()
            losses.append(torch.nn.functional.cross_entropy(self.logits.float(), following.flatten()))
        return torch.stack(losses).mean().item()

    def state(self):
        return [*self.cache.tensors(), self.token]


KINDS = dict(zip(WAYS, (Inference, Training, Decoding)))
