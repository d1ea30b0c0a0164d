// SPDX-License-Identifier: Apache-2.0
#pragma OPENCL FP_CONTRACT ON

__kernel void begin(__global const float* restrict start, __global float* restrict u, uint n) {
  const uint i = get_global_id(0);
  if (i < n) u[i] = start[i];
}

// A work-item for each row, a group of its own: the compiler makes vectors of the loop over the columns.
__kernel void spread(__global const float* restrict u, __global float* restrict v, uint h, uint w, float rate) {
  const uint y = get_global_id(0);
  __global const float* restrict row = u + y * w;
  __global float* restrict out = v + y * w;
  if (y == 0 || y == h - 1) {
    for (uint x = 0; x < w; ++x) out[x] = row[x];
    return;
  }
  __global const float* restrict above = row - w;
  __global const float* restrict below = row + w;
  out[0] = row[0];
  for (uint x = 1; x < w - 1; ++x)
    out[x] = row[x] + rate * (above[x] + below[x] + row[x - 1] + row[x + 1] - 4 * row[x]);
  out[w - 1] = row[w - 1];
}

// Sums of squares, because NaN must come through: a largest difference would hide it.
__kernel void change_rows(__global const float* restrict u, __global const float* restrict v,
                          __global float* restrict rows, uint w) {
  const uint y = get_global_id(0);
  __global const float* restrict before = u + y * w;
  __global const float* restrict after = v + y * w;
  float8 strips = 0;
  uint x = 0;
  for (; x + 8 <= w; x += 8) {
    const float8 change = vload8(0, after + x) - vload8(0, before + x);
    strips += change * change;
  }
  const float4 four = strips.lo + strips.hi;
  float sum = four.x + four.y + four.z + four.w;
  for (; x < w; ++x) {
    const float change = after[x] - before[x];
    sum += change * change;
  }
  rows[y] = sum;
}

__kernel void change_all(__global const float* restrict rows, __global float* restrict change, uint h, uint w) {
  float sum = 0;
  for (uint y = 0; y < h; ++y) sum += rows[y];
  change[0] = sqrt(sum / ((float)h * w));
}
