// A symbol that programs can name, so that no linker drops the library that registers the operators.
extern "C" __attribute__((visibility("default"))) int tile_ops_anchor() { return 0; }
