// SPDX-License-Identifier: Apache-2.0
//
// y[m,n] = x[m,k] * w[k,n] over complex numbers; x and y interleaved, w as two planes. A work-item computes 48 rows of
// 16 columns, ROWS rows at a time: real and imaginary sums stay in registers.
#pragma OPENCL FP_CONTRACT ON

// As many sums as a core has registers for: 16 of 8 floats, or 32 of 16 floats with AVX-512.
#ifdef __AVX512F__
typedef float16 Vector;
#define LANES 16
#define ROWS 8
#else
typedef float8 Vector;
#define LANES 8
#define ROWS 4
#endif
#define BLOCK 48  // rows of a work-item, as in function.yaml: a multiple of ROWS

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void cgemm(__global const float* restrict x, __global const float* restrict w, __global float2* restrict y, uint m,
           uint n, uint k) {
  const uint strip = 16 * (uint)get_global_id(0), begin = BLOCK * (uint)get_global_id(1), end = min(begin + BLOCK, m);
  for (uint column = strip; column < strip + 16; column += LANES) {
    __global const float *real = w + column, *imaginary = real + k * n;
    for (uint row = begin; row < end; row += ROWS) {
      __global const float* rows[ROWS];
      Vector re[ROWS], im[ROWS];
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) {
        rows[r] = x + min(row + r, m - 1) * 2 * k;  // past the last row: the last one again, which is not stored
        re[r] = im[r] = 0;
      }
      for (uint p = 0; p < k; ++p) {
        // n and column are multiples of LANES, and buffers are aligned: so are the vectors.
        const Vector a = *(__global const Vector*)(real + p * n), b = *(__global const Vector*)(imaginary + p * n);
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) {
          const float c = rows[r][2 * p], d = rows[r][2 * p + 1];
          re[r] += c * a;
          im[r] += c * b;
          re[r] -= d * b;
          im[r] += d * a;
        }
      }
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) {
        if (row + r >= m) continue;
        float line[2][LANES];
        *(Vector*)line[0] = re[r];
        *(Vector*)line[1] = im[r];
        for (uint j = 0; j < LANES; ++j) y[(row + r) * n + column + j] = (float2)(line[0][j], line[1][j]);
      }
    }
  }
}
