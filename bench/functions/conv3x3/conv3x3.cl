// SPDX-License-Identifier: Apache-2.0
//
// y = relu(conv(x, weights) + bias), 3 x 3, in blocks of 16 channels (function.yaml tells the layouts). A work-item
// computes one row of two blocks of output channels, a few pixels at a time with all sums in registers.
//
// In a row of x, where 16 channels of a pixel lie side by side, the three pixels under a window are 48 floats in a row,
// and so are their weights for each output channel. So three rows and four blocks of input channels make 12 products of
// 48 steps each, without a test for a border anywhere.
#pragma OPENCL FP_CONTRACT ON

#define BLOCKS (CHANNELS / 16)
#define ROW ((W + 2) * 16)  // floats from a row to the next, with the border
#define PLANE ((H + 2) * ROW)

// The results of PIXELS pixels from `column` on and of WIDE blocks from `block` on.
#define TILE(PIXELS, WIDE)                                                                              \
  {                                                                                                     \
    float16 sums[PIXELS][WIDE];                                                                         \
    _Pragma("unroll") for (uint p = 0; p < PIXELS; ++p)                                                 \
      _Pragma("unroll") for (uint o = 0; o < WIDE; ++o) sums[p][o] = bias[block + o];                   \
    for (uint from = 0; from < BLOCKS; ++from) {                                                        \
      for (uint down = 0; down < 3; ++down) {                                                           \
        __global const float* pixels = x + from * PLANE + (row + down) * ROW + column * 16;             \
        __global const float16* window = weights + ((block * BLOCKS + from) * 3 + down) * 48;           \
        for (uint i = 0; i < 48; ++i)                                                                   \
          _Pragma("unroll") for (uint p = 0; p < PIXELS; ++p)                                           \
            _Pragma("unroll") for (uint o = 0; o < WIDE; ++o)                                           \
              sums[p][o] = pixels[p * 16 + i] * window[o * BLOCKS * 144 + i] + sums[p][o];              \
      }                                                                                                 \
    }                                                                                                   \
    __global float16* to = y + (block * PLANE + (row + 1) * ROW) / 16 + column + 1;                     \
    _Pragma("unroll") for (uint p = 0; p < PIXELS; ++p)                                                 \
      _Pragma("unroll") for (uint o = 0; o < WIDE; ++o)                                                 \
        to[o * PLANE / 16 + p] = sums[p][o] > 0 ? sums[p][o] : (float16)0;                              \
  }

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv3x3(__global const float* restrict x, __global const float16* restrict weights,
             __global const float16* restrict bias, __global float16* restrict y) {
  const uint row = get_global_id(0), pair = 2 * (uint)get_global_id(1);
#ifdef __AVX512F__
  // 28 sums of 32 registers of 16 floats.
  const uint block = pair;
  for (uint column = 0; column < W; column += 14) TILE(14, 2)
#else
  // 6 sums, each two of the 16 registers of 8 floats, and 4 at the end: 56 = 8 * 6 + 2 * 4, so nothing is done twice.
  for (uint block = pair; block < pair + 2; ++block) {
    uint column = 0;
    for (; column < W - 8; column += 6) TILE(6, 1)
    for (; column < W; column += 4) TILE(4, 1)
  }
#endif
  // The border of y is zero, as that of x: it can be the input of the next convolution.
  for (uint block = pair; block < pair + 2; ++block) {
    __global float16* plane = y + block * PLANE / 16;
    plane[(row + 1) * (W + 2)] = plane[(row + 1) * (W + 2) + W + 1] = 0;
    if (row == 0)
      for (uint i = 0; i < W + 2; ++i) plane[i] = 0;
    if (row == H - 1)
      for (uint i = 0; i < W + 2; ++i) plane[(H + 1) * (W + 2) + i] = 0;
  }
}
