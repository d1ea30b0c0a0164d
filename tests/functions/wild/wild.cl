// SPDX-License-Identifier: Apache-2.0
__kernel void prepare_y(__global const float* x, __global float* y) {
  y[get_global_id(0)] = 2.0f * x[get_global_id(0)];
}

__kernel void wild_store(__global const float* y, __global float* z, ulong where) {
  z[get_global_id(0) + where] = y[get_global_id(0)];
}
