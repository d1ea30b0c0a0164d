// SPDX-License-Identifier: Apache-2.0
__kernel void multiply(__global const float* w, __global const float* x, __global float* t, uint n) {
  const uint i = get_global_id(0), row = get_global_id(1);
  float sum = 0;
  for (uint k = 0; k < n; ++k) sum += w[i * n + k] * x[row * n + k];
  t[row * n + i] = sum;
}

__kernel void add(__global const float* b, __global const float* t, __global float* y, __global uint* count, uint n,
                  float scale) {
  const uint i = get_global_id(0), row = get_global_id(1);
  y[row * n + i] = scale * (t[row * n + i] + b[i]);
  atomic_inc(count);
}
