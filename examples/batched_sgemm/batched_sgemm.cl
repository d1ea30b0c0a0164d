// SPDX-License-Identifier: Apache-2.0
//
// A work-item computes 16 columns of one matrix, ROWS rows at a time with all sums in registers. The matrices are small
// enough that 16 columns of B stay in the first cache, so that, unlike in examples/sgemm, nothing is copied.
#pragma OPENCL FP_CONTRACT ON

#ifdef __AVX512F__
#define ROWS 12
#else
#define ROWS 6
#endif

// Rows start anywhere, so vectors are aligned like floats.
typedef float16 __attribute__((aligned(4))) Strip;

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void batched_sgemm(__global const float* restrict a, __global const float* restrict b, __global float* restrict c,
                   uint batch, uint m, uint n, uint k) {
  const uint column = 16 * (uint)get_global_id(0), width = min(n - column, 16u), matrix = get_global_id(1);
  __global const float* strips = b + matrix * k * n + column;
  // At the right edge a strip reaches into the next row. Those sums are not stored, so only the strips that would reach
  // past the end of the buffer need care: the last few rows of the last matrix.
  const uint left = (batch - matrix) * k * n - column;
  const uint whole = left < 16 ? 0 : min(k, (left - 16) / n + 1);
  for (uint row = 0; row < m; row += ROWS) {
    __global const float* rows[ROWS];
    float16 sums[ROWS];
#pragma unroll
    for (uint r = 0; r < ROWS; ++r) {
      rows[r] = a + (matrix * m + min(row + r, m - 1)) * k;  // past the last row: the last one again, not stored
      sums[r] = 0;
    }
    for (uint p = 0; p < whole; ++p) {
      const float16 strip = *(__global const Strip*)(strips + p * n);
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) sums[r] = rows[r][p] * strip + sums[r];
    }
    for (uint p = whole; p < k; ++p) {
      float line[16] = {0};
      for (uint j = 0; j < width; ++j) line[j] = strips[p * n + j];
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) sums[r] = rows[r][p] * *(Strip*)line + sums[r];
    }
#pragma unroll
    for (uint r = 0; r < ROWS; ++r) {
      if (row + r >= m) continue;
      __global float* to = c + (matrix * m + row + r) * n + column;
      if (width == 16) {
        *(__global Strip*)to = sums[r];
      } else {
        float line[16];
        *(Strip*)line = sums[r];
        for (uint j = 0; j < width; ++j) to[j] = line[j];
      }
    }
  }
}
