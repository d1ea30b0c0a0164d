// SPDX-License-Identifier: Apache-2.0
#pragma OPENCL FP_CONTRACT ON

// Rows start anywhere, so their vectors are aligned like floats.
typedef float16 __attribute__((aligned(4))) Strip;

float total(float8 v) {
  const float4 four = v.lo + v.hi;
  const float2 two = four.lo + four.hi;
  return two.x + two.y;
}

// y = x + (b - A x) / diagonal: each unknown as its own equation would have it, with the others as they were.
__kernel void improve(__global const float* restrict a, __global const float* restrict b,
                      __global const float* restrict x, __global float* restrict y, uint n) {
  const size_t row = get_global_id(0);
  __global const float* restrict coefficients = a + row * n;
  float16 strips = 0;
  uint k = 0;
  for (; k + 16 <= n; k += 16) strips += *(__global const Strip*)(coefficients + k) * *(__global const Strip*)(x + k);
  float sum = total(strips.lo + strips.hi);
  for (; k < n; ++k) sum += coefficients[k] * x[k];
  y[row] = x[row] + (b[row] - sum) / coefficients[row];
}

// err = the root mean square of y - x, by one group. Not the largest difference: NaN must come through.
__kernel void compare(__global const float* restrict x, __global const float* restrict y, __global float* restrict err,
                      uint n, __local float* restrict partial) {
  const uint item = get_local_id(0), items = get_local_size(0);
  float squares = 0;
  for (uint i = item; i < n; i += items) {
    const float change = y[i] - x[i];
    squares += change * change;
  }
  partial[item] = squares;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0) {
    for (uint i = 1; i < items; ++i) squares += partial[i];
    err[0] = sqrt(squares / n);
  }
}
