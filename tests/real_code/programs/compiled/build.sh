#!/bin/sh
cc -shared -fPIC -O2 -o "$(dirname "$0")/kernels/libfast.so" "$(dirname "$0")/fast.c"
