// SPDX-License-Identifier: Apache-2.0
//
// `pad` gives every image a border of zeros, so that `conv2d` never asks where a window ends. `conv2d` keeps 16 pixels
// of FILTERS filters in registers; each 16 floats of x are loaded once and used for all of them.
#pragma OPENCL FP_CONTRACT ON

#define FILTERS 6  // of a work-item, as in function.yaml: 12 registers of 8 floats hold the sums

// Windows start anywhere, so vectors are aligned like floats.
typedef float16 __attribute__((aligned(4))) Strip;

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pad(__global const float* restrict x, __global float* restrict padded, uint channels, uint h, uint w, uint size) {
  const uint row = get_global_id(0), plane = get_global_id(2) * channels + get_global_id(1), border = (size - 1) / 2;
  const uint width = (w + 15) / 16 * 16 + size - 1;
  __global float* to = padded + (plane * (h + size - 1) + row) * width;
  if (row < border || row - border >= h) {
    for (uint i = 0; i < width; ++i) to[i] = 0;
    return;
  }
  __global const float* from = x + (plane * h + row - border) * w;
  for (uint i = 0; i < border; ++i) to[i] = 0;
  for (uint i = 0; i < w; ++i) to[border + i] = from[i];
  for (uint i = border + w; i < width; ++i) to[i] = 0;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void conv2d(__global const float* restrict padded, __global const float* restrict weights,
            __global const float* restrict bias, __global float* restrict y, uint channels, uint filters, uint h,
            uint w, uint size) {
  const uint first = FILTERS * (uint)get_global_id(0), row = get_global_id(1), image = get_global_id(2);
  const uint width = (w + 15) / 16 * 16 + size - 1;
  for (uint column = 0; column < w; column += 16) {
    __global const float* window[FILTERS];
    float16 sums[FILTERS];
#pragma unroll
    for (uint f = 0; f < FILTERS; ++f) {
      const uint filter = min(first + f, filters - 1);  // past the last filter: the last one again, which is not stored
      window[f] = weights + filter * channels * size * size;
      sums[f] = bias[filter];
    }
    uint i = 0;  // of the weights of a filter
    for (uint channel = 0; channel < channels; ++channel) {
      for (uint down = 0; down < size; ++down) {
        __global const float* from =
            padded + ((image * channels + channel) * (h + size - 1) + row + down) * width + column;
        for (uint right = 0; right < size; ++right, ++i) {
          const float16 pixels = *(__global const Strip*)(from + right);
#pragma unroll
          for (uint f = 0; f < FILTERS; ++f) sums[f] = window[f][i] * pixels + sums[f];
        }
      }
    }
#pragma unroll
    for (uint f = 0; f < FILTERS; ++f) {
      if (first + f >= filters) continue;
      __global float* to = y + ((image * filters + first + f) * h + row) * w + column;
      if (column + 16 <= w) {
        *(__global Strip*)to = sums[f];
      } else {
        float line[16];
        *(Strip*)line = sums[f];
        for (uint j = 0; j < w - column; ++j) to[j] = line[j];
      }
    }
  }
}
