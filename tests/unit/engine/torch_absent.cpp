extern "C" __attribute__((visibility("default"))) int torch_absent_symbol() { return 0; }
