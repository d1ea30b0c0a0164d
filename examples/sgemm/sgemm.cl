// SPDX-License-Identifier: Apache-2.0
//
// A work-item keeps a tile of ROWS x 16 sums in registers and walks down k: each 16 floats of B are loaded once and
// used for all rows. The tile at the right edge goes column by column; at the bottom edge rows past the end repeat the
// last one and are not stored.
#pragma OPENCL FP_CONTRACT ON

// Rows of B start anywhere, so its vectors are aligned like floats.
typedef float16 __attribute__((aligned(4))) Strip;

void edge(__global const float* a, __global const float* b, __global float* c, uint m, uint n, uint k, uint row,
          uint column) {
  for (uint r = row; r < min(row + ROWS, m); ++r) {
    for (uint j = column; j < n; ++j) {
      float sum = 0;
      for (uint p = 0; p < k; ++p) sum += a[r * k + p] * b[p * n + j];
      c[r * n + j] = sum;
    }
  }
}

__kernel void sgemm(__global const float* a, __global const float* b, __global float* c, uint m, uint n, uint k) {
  const uint row = ROWS * get_global_id(0);
  const uint column = 16 * get_global_id(1);
  if (column + 16 > n) {
    edge(a, b, c, m, n, k, row, column);
    return;
  }
  float16 sums[ROWS];
  __global const float* rows[ROWS];
#pragma unroll
  for (uint r = 0; r < ROWS; ++r) {
    sums[r] = 0;
    rows[r] = a + min(row + r, m - 1) * k;
  }
  for (uint p = 0; p < k; ++p) {
    const float16 strip = *(__global const Strip*)(b + p * n + column);
#pragma unroll
    for (uint r = 0; r < ROWS; ++r) sums[r] = rows[r][p] * strip + sums[r];
  }
#pragma unroll
  for (uint r = 0; r < ROWS; ++r)
    if (row + r < m) *(__global Strip*)(c + (row + r) * n + column) = sums[r];
}
