/* folds.h: the reductions, a line each, for kernels of every device kind. A list of macro calls; the including file
 * defines the macros that it wants and has them undefined behind the list.
 *
 *   GR_FOLD(name, start, element, joined, end)          of numbers and bools: codegen/bodies.py reads the names, and
 *                                                       every header with a line `gr-folds` has its body
 *   GR_NUMBER_FOLD(name, start, element, joined, end)   of floats and integers, likewise by `gr-number-folds`
 *   GR_FLOAT_FOLD(name, start, element, joined, end)    of floats, by `gr-float-folds`
 *
 * name: of the op, whose C function is made of it. start: what any total may be joined with and stays, so that it is
 * also what no elements are reduced to. element: what is taken of the element `x`. joined: `a`, the total up to now,
 * with `b`, what was taken of an element or the total of others. end: the result of the total `a` of `n` elements.
 * Elements are joined in any order: kernels keep several totals side by side and join them last. Each is computed in
 * the type of totals: double for floats; for integers, which wrap, an unsigned type that is as wide or wider. There are
 *   GR_E           the type in which totals compare: signed where the elements are
 *   GR_LOWEST      the least number there is, or -infinity
 *   GR_HIGHEST     the greatest, or infinity
 *   GR_IS_NAN(a)   0 for integers
 *   GR_ABS(x)      without its sign
 *   GR_CHOOSE(wanted, a, b)  a or b, both of the type of totals: may be left out
 * Comparisons are written so that a NaN stays.
 *
 * defines: nothing; the macros end here
 * Included by: cpu/reduce.h, tt/reduce.h. */
#ifndef GR_FOLD
#define GR_FOLD(name, start, element, joined, end)
#endif
#ifndef GR_NUMBER_FOLD
#define GR_NUMBER_FOLD(name, start, element, joined, end)
#endif
#ifndef GR_CHOOSE
#define GR_CHOOSE(wanted, a, b) ((wanted) ? (a) : (b))
#endif
#ifndef GR_FLOAT_FOLD
#define GR_FLOAT_FOLD(name, start, element, joined, end)
#endif

GR_NUMBER_FOLD(sum, 0, x, a + b, a)
GR_NUMBER_FOLD(sum_abs, 0, GR_ABS(x), a + b, a)
GR_NUMBER_FOLD(sum_squares, 0, x * x, a + b, a)
GR_FLOAT_FOLD(mean, 0, x, a + b, a / n)
GR_NUMBER_FOLD(prod, 1, x, a * b, a)
GR_FOLD(max, GR_LOWEST, x, GR_CHOOSE(((GR_E)a >= (GR_E)b) | GR_IS_NAN(a), a, b), a)
GR_FOLD(min, GR_HIGHEST, x, GR_CHOOSE(((GR_E)a <= (GR_E)b) | GR_IS_NAN(a), a, b), a)

#undef GR_CHOOSE
#undef GR_FOLD
#undef GR_NUMBER_FOLD
#undef GR_FLOAT_FOLD
