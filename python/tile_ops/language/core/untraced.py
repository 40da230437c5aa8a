"""Functions that torch.compile runs as they are: they translate, compile and measure, and are no part of a graph."""

from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy


def untraced(function):
    """The function, which torch.compile does not look into, nor into what it calls. torch.compiler.disable would import
    all of torch._dynamo, and add a call."""
    set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = (
        "it translates, compiles or measures kernels, which cannot be part of a graph; make the function that launches "
        "the kernel an operator with @tile_ops.op"
    )
    return function
