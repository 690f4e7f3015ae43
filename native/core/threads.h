/* threads.h: threads of the runtime's own.
 *
 * Called by queue.c, workers.c and pack.c, any thread.
 * defines: gr_thread_start, gr_relax
 */
#ifndef GR_THREADS_H
#define GR_THREADS_H

#include <pthread.h>

/* Starts work(arg) in a thread that blocks all signals except those of a fault. Returns 0, or pthread_create's
 * error. */
int gr_thread_start(pthread_t *thread, void *(*work)(void *), void *arg);

/* Between two looks at a word that another thread writes: leaves the core to its other hardware thread for a moment. On
 * AArch64 `yield` does nothing on most cores; `isb` takes about as long as the instruction of x86. */
static inline void gr_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" : : : "memory");
#endif
}

#endif
