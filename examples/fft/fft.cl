// SPDX-License-Identifier: Apache-2.0
#pragma OPENCL FP_CONTRACT ON

__kernel void begin(__global const float2* restrict x, __global float2* restrict y, float scale, uint n) {
  const uint i = get_global_id(0);
  if (i < n) y[i] = scale * x[i];
}

// exp(-2 pi i k / n) for k below n / 2, or with + for the inverse. sinpi and cospi take turns of pi: an argument that
// is a whole multiple of 1 / n is exact, which one of 2 pi / n would not be.
__kernel void fill_twiddles(__global float2* restrict twiddles, float angle, uint count) {
  const uint k = get_global_id(0);
  if (k < count) twiddles[k] = (float2)(cospi(angle * k), sinpi(angle * k));
}

// Stockham's order: what lies n / 2 apart meets, and the results go where the next round expects them, so nothing has
// to be put in order by reversing bits. `width` values with one twiddle are next to each other.
__kernel void butterfly(__global const float2* restrict y, __global float2* restrict t,
                        __global const float2* restrict twiddles, uint width, uint count) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  const uint column = i & (width - 1);
  const float2 a = y[i], b = y[i + count];
  const float2 difference = a - b;
  const float2 twiddle = twiddles[i - column];
  const uint at = 2 * i - column;
  t[at] = a + b;
  t[at + width] = (float2)(difference.x * twiddle.x - difference.y * twiddle.y,
                           difference.x * twiddle.y + difference.y * twiddle.x);
}
