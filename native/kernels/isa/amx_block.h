/* amx_block.h: up to 32 x 32 sums in four tiles of AMX, over all steps of k: what products of bf16 and those of bytes
 * have in common. A step is four loads and four products, two tiles of A and two of B.
 *
 * Included by: panels_amx.h, byte_panels_amx.h, where the machine may have AMX (isa/amx.h). Thread: any.
 * defines: GR_AMX_STEP, gr_amx_steps, gr_amx_block
 */
#ifndef GR_ISA_AMX_BLOCK_H
#define GR_ISA_AMX_BLOCK_H

#include "isa/amx.h"

#define GR_AMX_STEP 2048               /* bytes of B that a step reads: 16 lines of a panel */
#define GR_AMX_ALWAYS static inline __attribute__((always_inline))

typedef struct gr_amx_steps {
  const uint8_t *a;
  int64_t line, step, below;           /* bytes of A: from row to row, from step to step, to row 16 */
  const uint8_t *b, *rest;             /* rest: NULL, or B of one more step, behind the others */
  int64_t steps;
  int64_t ahead;                       /* 0, or how many bytes B is asked for before its use */
} gr_amx_steps;

GR_AMX_ALWAYS void gr_amx_dot(int bytes, int rows, int columns) {
  if (bytes) GR_AMX_DOT_BYTES(0, 4, 6);
  else GR_AMX_DOT_BF16(0, 4, 6);
  if (columns > 1 && bytes) GR_AMX_DOT_BYTES(1, 4, 7);
  else if (columns > 1) GR_AMX_DOT_BF16(1, 4, 7);
  if (rows > 1 && bytes) GR_AMX_DOT_BYTES(2, 5, 6);
  else if (rows > 1) GR_AMX_DOT_BF16(2, 5, 6);
  if (rows > 1 && columns > 1 && bytes) GR_AMX_DOT_BYTES(3, 5, 7);
  else if (rows > 1 && columns > 1) GR_AMX_DOT_BF16(3, 5, 7);
}

/* rows, columns: tiles; sums: 32 of four bytes from row to row. */
GR_AMX_ALWAYS void gr_amx_tiles_of(const gr_amx_steps *s, void *sums, int bytes, int rows, int columns) {
  const uint8_t *a = s->a, *b = s->b;
  uint8_t *to = sums;
  GR_AMX_ZERO(0);
  if (columns > 1) GR_AMX_ZERO(1);
  if (rows > 1) GR_AMX_ZERO(2);
  if (rows > 1 && columns > 1) GR_AMX_ZERO(3);
  for (int64_t i = s->steps + (s->rest != NULL); i > 0; --i, a += s->step, b += GR_AMX_STEP) {
    if (i == 1 && s->rest) b = s->rest;
    if (s->ahead) {
#pragma GCC unroll 32
      for (int at = 0; at < GR_AMX_STEP; at += 64) __builtin_prefetch(b + s->ahead + at);
    }
    GR_AMX_LOAD(4, a, s->line);
    if (rows > 1) GR_AMX_LOAD(5, a + s->below, s->line);
    GR_AMX_LOAD(6, b, 128);
    if (columns > 1) GR_AMX_LOAD(7, b + 64, 128);
    gr_amx_dot(bytes, rows, columns);
  }
  GR_AMX_STORE(0, to, 128);
  if (columns > 1) GR_AMX_STORE(1, to + 64, 128);
  if (rows > 1) GR_AMX_STORE(2, to + 2048, 128);
  if (rows > 1 && columns > 1) GR_AMX_STORE(3, to + 2112, 128);
}

/* Sums of a block of at most 32 rows and columns; of what lies behind them none. */
GR_AMX_ALWAYS void gr_amx_block(const gr_amx_steps *s, void *sums, int64_t rows, int64_t columns, int bytes) {
  if (rows > 16 && columns > 16) gr_amx_tiles_of(s, sums, bytes, 2, 2);
  else if (rows > 16) gr_amx_tiles_of(s, sums, bytes, 2, 1);
  else if (columns > 16) gr_amx_tiles_of(s, sums, bytes, 1, 2);
  else gr_amx_tiles_of(s, sums, bytes, 1, 1);
}

#endif
