"""Functions that torch.compile must not trace: they translate, compile and measure, and do not belong in a graph."""

from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy


def untraced(function):
    """Marks a function that torch.compile does not trace, nor what it calls. torch.compiler.disable would import all of
    torch._dynamo and add a call."""
    set_code_exec_strategy(function.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = (
        "it translates, compiles or measures kernels, which cannot be part of a graph; make the function that launches "
        "the kernel an operator with @tile_ops.op"
    )
    return function
