// SPDX-License-Identifier: Apache-2.0
//
// C = A * B with B in panels of 16 columns. A work-item computes BLOCK rows of PANELS panels; a tile of ROWS rows and
// WIDE panels of sums stays in registers while it walks down k. The panels are read as one stream of whole cache lines;
// the rows of A in use stay in the second cache for all panels of the work-item.
#pragma OPENCL FP_CONTRACT ON

// 12 sums of 16 registers of 8 floats; with AVX-512 28 sums of 32 registers of 16 floats. The rest holds B and one A.
#ifdef __AVX512F__
#define ROWS 14
#define WIDE 2
#else
#define ROWS 6
#define WIDE 1
#endif
#define DEPTH 1024  // rows of B in one pass, so that the rows of A in use fit the second cache

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void sgemm_packed(__global const float* restrict a, __global const float16* restrict b, __global float16* restrict c,
                  uint m, uint panels, uint k) {
  const uint row_begin = BLOCK * (uint)get_global_id(0), row_end = min(row_begin + BLOCK, m);
  const uint panel_begin = PANELS * (uint)get_global_id(1), panel_end = min(panel_begin + PANELS, panels);
  for (uint done = 0; done < k; done += DEPTH) {
    const uint depth = min(k - done, (uint)DEPTH);
    for (uint panel = panel_begin; panel < panel_end; panel += WIDE) {
      for (uint row = row_begin; row < row_end; row += ROWS) {
        // Past the last row or panel: the last one again, which is not stored.
        __global const float* rows[ROWS];
        __global const float16* strips[WIDE];
        float16 sums[ROWS][WIDE];
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) rows[r] = a + min(row + r, m - 1) * k + done;
#pragma unroll
        for (uint w = 0; w < WIDE; ++w) strips[w] = b + min(panel + w, panels - 1) * k + done;
#pragma unroll
        for (uint r = 0; r < ROWS; ++r)
#pragma unroll
          for (uint w = 0; w < WIDE; ++w) sums[r][w] = 0;
        for (uint p = 0; p < depth; ++p) {
#pragma unroll
          for (uint r = 0; r < ROWS; ++r)
#pragma unroll
            for (uint w = 0; w < WIDE; ++w) sums[r][w] = rows[r][p] * strips[w][p] + sums[r][w];
        }
#pragma unroll
        for (uint r = 0; r < ROWS; ++r) {
#pragma unroll
          for (uint w = 0; w < WIDE; ++w) {
            if (row + r >= m || panel + w >= panels) continue;
            __global float16* to = c + (row + r) * panels + panel + w;
            *to = done ? *to + sums[r][w] : sums[r][w];
          }
        }
      }
    }
  }
}
