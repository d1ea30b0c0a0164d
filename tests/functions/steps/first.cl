// SPDX-License-Identifier: Apache-2.0
#include "include/one.h"
__kernel void twice(__global const float* x, __global float* y) { y[get_global_id(0)] = TWO * x[get_global_id(0)]; }
