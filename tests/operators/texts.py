"""Parts that the texts of errors share in the table of operators."""

FLOATS = "it must be Half, BFloat16, Float or Double, convert it with .to()"
OTHERS = "it must be float16, bfloat16, float32 or float64"
MOVE = "move them to one device"
LAST = "it must be the sizes of the last dimensions"
SAVED = "as the forward saves it"
RESULT = "that of the result"
HERE = "<the device>"  # a test puts in the device of its tensors
