// SPDX-License-Identifier: Apache-2.0
//
// `dense`: y = x w + bias, and relu of it where `relu` is 1. A work-item computes BLOCK rows of 16 outputs, ROWS rows
// at a time with all sums in registers. `softmax` turns each row into probabilities.
#pragma OPENCL FP_CONTRACT ON

#ifdef __AVX512F__
#define ROWS 12
#else
#define ROWS 6
#endif
#define BLOCK 48  // as in function.yaml: a multiple of ROWS

// Rows start anywhere, so vectors are aligned like floats.
typedef float16 __attribute__((aligned(4))) Strip;

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void dense(__global const float* restrict x, __global const float* restrict w, __global const float* restrict bias,
           __global float* restrict y, uint m, uint n, uint k, uint relu) {
  const uint column = 16 * (uint)get_global_id(0), width = min(n - column, 16u);
  const uint begin = BLOCK * (uint)get_global_id(1), end = min(begin + BLOCK, m);
  // At the right edge a strip of w reaches into the next row. Those sums are not stored, so only the strips that would
  // reach past the end of w need care: the last few rows.
  const uint left = k * n - column, whole = left < 16 ? 0 : min(k, (left - 16) / n + 1);
  float offsets[16] = {0};
  for (uint j = 0; j < width; ++j) offsets[j] = bias[column + j];
  for (uint row = begin; row < end; row += ROWS) {
    __global const float* rows[ROWS];
    float16 sums[ROWS];
#pragma unroll
    for (uint r = 0; r < ROWS; ++r) {
      rows[r] = x + min(row + r, m - 1) * k;  // past the last row: the last one again, which is not stored
      sums[r] = *(Strip*)offsets;
    }
    for (uint p = 0; p < whole; ++p) {
      const float16 strip = *(__global const Strip*)(w + p * n + column);
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) sums[r] = rows[r][p] * strip + sums[r];
    }
    for (uint p = whole; p < k; ++p) {
      float line[16] = {0};
      for (uint j = 0; j < width; ++j) line[j] = w[p * n + column + j];
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) sums[r] = rows[r][p] * *(Strip*)line + sums[r];
    }
#pragma unroll
    for (uint r = 0; r < ROWS; ++r) {
      if (row + r >= m) continue;
      __global float* to = y + (row + r) * n + column;
      const float16 result = relu ? (sums[r] > 0 ? sums[r] : (float16)0) : sums[r];
      if (width == 16) {
        *(__global Strip*)to = result;
      } else {
        float line[16];
        *(Strip*)line = result;
        for (uint j = 0; j < width; ++j) to[j] = line[j];
      }
    }
  }
}

__kernel void softmax(__global const float* restrict x, __global float* restrict y, uint m, uint n) {
  const uint row = get_global_id(0);
  if (row >= m) return;
  __global const float* from = x + row * n;
  __global float* to = y + row * n;
  float most = from[0], sum = 0;
  for (uint j = 1; j < n; ++j) most = fmax(most, from[j]);
  for (uint j = 0; j < n; ++j) sum += to[j] = exp(from[j] - most);  // at most 1: large numbers do no harm
  for (uint j = 0; j < n; ++j) to[j] /= sum;
}
