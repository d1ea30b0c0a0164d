// SPDX-License-Identifier: Apache-2.0
//
// Whole numbers up to the blend, so that every device finds the same edges. Each work-item makes one row, and its loops
// run over neighbours in memory: the compiler turns them into vectors. Past its rim the picture goes on as its
// outermost pixels; what is close to the rim on the left and right is done apart: long loops should have no tests.

// The pixel of a row that stands for pixel x, inside or not.
uint inside(int x, uint w) { return (uint)clamp(x, 0, (int)w - 1); }

__kernel void blur_across(__global const uchar* restrict picture, __global const ushort* restrict weights,
                          __global ushort* restrict across, uint w) {
  __global const uchar* restrict in = picture + get_global_id(0) * 3 * w;
  __global ushort* restrict out = across + get_global_id(0) * 3 * w;
  const ushort w0 = weights[0], w1 = weights[1], w2 = weights[2], w3 = weights[3], w4 = weights[4];
  for (uint i = 6; i + 6 < 3 * w; ++i)
    out[i] = w0 * in[i - 6] + w1 * in[i - 3] + w2 * in[i] + w3 * in[i + 3] + w4 * in[i + 6];
  // Two pixels at each end. In a picture less than four wide they are the same: written twice, with the same values.
  for (uint k = 0; k < 4; ++k) {
    const int x = k < 2 ? (int)min(k, w - 1) : (int)w - 1 - (int)min(k - 2, w - 1);
    for (uint c = 0; c < 3; ++c)
      out[3 * x + c] = w0 * in[3 * inside(x - 2, w) + c] + w1 * in[3 * inside(x - 1, w) + c] + w2 * in[3 * x + c] +
                       w3 * in[3 * inside(x + 1, w) + c] + w4 * in[3 * inside(x + 2, w) + c];
  }
}

__kernel void blur_down(__global const ushort* restrict across, __global const ushort* restrict weights,
                        __global uchar* restrict blurred, uint h, uint w) {
  const int y = get_global_id(0);
  __global const ushort* restrict row0 = across + inside(y - 2, h) * 3 * w;
  __global const ushort* restrict row1 = across + inside(y - 1, h) * 3 * w;
  __global const ushort* restrict row2 = across + y * 3 * w;
  __global const ushort* restrict row3 = across + inside(y + 1, h) * 3 * w;
  __global const ushort* restrict row4 = across + inside(y + 2, h) * 3 * w;
  __global uchar* restrict out = blurred + y * 3 * w;
  const ushort w0 = weights[0], w1 = weights[1], w2 = weights[2], w3 = weights[3], w4 = weights[4];
  for (uint i = 0; i < 3 * w; ++i)  // at most 255 * 256 + 128: it fits 16 bits
    out[i] = (ushort)(w0 * row0[i] + w1 * row1[i] + w2 * row2[i] + w3 * row3[i] + w4 * row4[i] + 128) >> 8;
}

__kernel void make_grey(__global const uchar* restrict blurred, __global uchar* restrict grey, uint w) {
  __global const uchar* restrict in = blurred + get_global_id(0) * 3 * w;
  __global uchar* restrict out = grey + get_global_id(0) * w;
  for (uint x = 0; x < w; ++x) out[x] = (ushort)(77 * in[3 * x] + 150 * in[3 * x + 1] + 29 * in[3 * x + 2] + 128) >> 8;
}

// |dx| + |dy| of Sobel's gradient at one pixel, from columns l, x and r of the rows above, at and below it.
short gradient(__global const uchar* restrict a, __global const uchar* restrict m, __global const uchar* restrict b,
               uint l, uint x, uint r) {
  const short dx = (a[r] + 2 * m[r] + b[r]) - (a[l] + 2 * m[l] + b[l]);
  const short dy = (b[l] + 2 * b[x] + b[r]) - (a[l] + 2 * a[x] + a[r]);
  return (short)(abs(dx) + abs(dy));
}

__kernel void sobel(__global const uchar* restrict grey, __global uchar* restrict edges, uint h, uint w,
                    int threshold) {
  const int y = get_global_id(0);
  __global const uchar* restrict above = grey + inside(y - 1, h) * w;
  __global const uchar* restrict row = grey + y * w;
  __global const uchar* restrict below = grey + inside(y + 1, h) * w;
  __global uchar* restrict out = edges + y * w;
  const short least = (short)threshold;
  out[0] = gradient(above, row, below, 0, 0, inside(1, w)) >= least ? 255 : 0;
  for (uint x = 1; x + 1 < w; ++x) out[x] = gradient(above, row, below, x - 1, x, x + 1) >= least ? 255 : 0;
  out[w - 1] = gradient(above, row, below, inside((int)w - 2, w), w - 1, w - 1) >= least ? 255 : 0;
}

// The picture and `strength` times what the blur took away from it, where an edge is; elsewhere -1 times, which is the
// blur. One loop over bytes with i / 3 is seven times as fast as one over pixels with three bytes inside.
__kernel void blend(__global const uchar* restrict picture, __global const uchar* restrict blurred,
                    __global const uchar* restrict edges, __global uchar* restrict result, uint w, float strength) {
  const size_t row = get_global_id(0);
  __global const uchar* restrict in = picture + row * 3 * w;
  __global const uchar* restrict blur = blurred + row * 3 * w;
  __global const uchar* restrict edge = edges + row * w;
  __global uchar* restrict out = result + row * 3 * w;
  for (uint i = 0; i < 3 * w; ++i) {
    const float factor = edge[i / 3] ? strength : -1;
    // -2040 to 2295, and so positive when it is cut to a whole number: half is rounded up.
    const int sharp = (int)(in[i] + factor * (in[i] - blur[i]) + 4096.5f) - 4096;
    out[i] = (uchar)clamp(sharp, 0, 255);
  }
}
