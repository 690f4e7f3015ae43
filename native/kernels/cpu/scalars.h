/* scalars.h: the functions of formulas.h on one float or double: gr_fn_silu(a, p, q), gr_logistic(a), and with an f
 * behind the name those of float, with f_fused those whose exponentials round multiply-adds once. Of pairs
 * gr_fn_hypot(a, b), of triples gr_fn_lerp(a, b, c, p).
 *
 * Included by: the templates of this directory, as GR_MATH(gr_fn_silu). Thread: any.
 * defines: gr_fn_{names of functions.h}[f[_fused]], gr_{helpers of formulas.h}[f[_fused]]
 */
#ifndef GR_CPU_SCALARS_H
#define GR_CPU_SCALARS_H

#include "cpu/common.h"
#include "special.h"

#define GR_E float
#define GR_LIB(fn) fn##f
#define GR_OWN(fn) gr_##fn##f
#define GR_SELECT gr_select
#define GR_OF(helper) gr_##helper##f
#define GR_GELU gr_geluf
#define GR_OWN_LOGISTIC
#define GR_FORMULA(name) gr_fn_##name##f
#include "formulas.h"

#define GR_E float
#define GR_LIB(fn) fn##f
#define GR_OWN(fn) gr_##fn##f_fused
#define GR_SELECT gr_select
#define GR_OF(helper) gr_##helper##f_fused
#define GR_GELU gr_geluf_fused
#define GR_OWN_LOGISTIC
#define GR_FORMULA(name) gr_fn_##name##f_fused
#include "formulas.h"

#define GR_E double
#define GR_LIB(fn) fn
#define GR_OWN(fn) fn
#define GR_SELECT gr_select_wide
#define GR_OF(helper) gr_##helper
#define GR_FORMULA(name) gr_fn_##name
#include "formulas.h"

#endif
