// SPDX-License-Identifier: Apache-2.0
//
// A work-item computes a block of BLOCK x 16 results. It copies 16 columns of B into local memory, where they lie one
// behind the other, and then goes down its rows: ROWS x 16 sums stay in registers, and each 16 floats of B are loaded
// once for all ROWS rows of A. The copy is one load and one store for BLOCK x 16 sums, and makes them half as fast
// again: in B itself each row is a jump to another page.
#pragma OPENCL FP_CONTRACT ON

// As many sums as a core has registers for: 16 of 8 floats, or 32 of 16 floats with AVX-512.
#ifdef __AVX512F__
#define ROWS 12
#else
#define ROWS 6
#endif
#define DEPTH 512  // rows of B in one go: 32 KiB, which every device has as local memory

// Rows of B and C start anywhere, so their vectors are aligned like floats.
typedef float16 __attribute__((aligned(4))) Strip;

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void sgemm(__global const float* restrict a, __global const float* restrict b, __global float* restrict c, uint m,
           uint n, uint k) {
  __local float16 panel[DEPTH];
  const uint begin = BLOCK * (uint)get_global_id(0), end = min(begin + BLOCK, m);
  const uint column = 16 * (uint)get_global_id(1), width = min(n - column, 16u);
  for (uint done = 0; done < k; done += DEPTH) {
    const uint depth = min(k - done, (uint)DEPTH);
    for (uint p = 0; p < depth; ++p) {
      __global const float* from = b + (done + p) * n + column;
      if (width == 16) {
        panel[p] = *(__global const Strip*)from;
      } else {
        panel[p] = 0;
        for (uint j = 0; j < width; ++j) ((__local float*)(panel + p))[j] = from[j];
      }
    }
    for (uint row = begin; row < end; row += ROWS) {
      __global const float* rows[ROWS];
      float16 sums[ROWS];
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) {
        rows[r] = a + min(row + r, m - 1) * k + done;  // past the last row: the last one again, which is not stored
        sums[r] = 0;
      }
      for (uint p = 0; p < depth; ++p) {
        const float16 strip = panel[p];
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) sums[r] = rows[r][p] * strip + sums[r];
      }
#pragma unroll
      for (uint r = 0; r < ROWS; ++r) {
        if (row + r >= m) continue;
        __global float* to = c + (row + r) * n + column;
        if (width == 16) {
          *(__global Strip*)to = done ? *(__global Strip*)to + sums[r] : sums[r];
        } else {
          float line[16];
          *(Strip*)line = sums[r];
          for (uint j = 0; j < width; ++j) to[j] = done ? to[j] + line[j] : line[j];
        }
      }
    }
  }
}
