// test: check
#include <nicforge.h>
static int f(int x) { return x; }
