// SPDX-License-Identifier: Apache-2.0
__kernel void add_one(__global const float* x, __global float* y) {
  y[get_global_id(0)] = x[get_global_id(0)] + ONE;
}
__kernel void note(__global const int* table, __global int* sums, int which) { sums[which] += table[which]; }
__kernel void count_up(__global int* count) { count[0] += ONE; }
