/* scalars.h: the functions of formulas.h on one float, as gr_tt_fn_silu(a, p, q) and
 * gr_tt_logistic_of(a).
 *
 * Included by: unary.h, pairs.h and program.h. Thread: any.
 * defines: gr_tt_fn_{names of functions.h}, gr_tt_{helpers of formulas.h}_of
 */
#ifndef GR_TT_SCALARS_H
#define GR_TT_SCALARS_H

#include "cpu/common.h"
#include "special.h"

#define GR_E float
#define GR_LIB(fn) fn##f
#define GR_OWN(fn) gr_##fn##f
#define GR_SELECT gr_select
#define GR_OF(helper) gr_tt_##helper##_of
#define GR_FORMULA(name) gr_tt_fn_##name
#include "formulas.h"

#endif
