/* threads.h: threads of the runtime's own.
 *
 * Called by queue.c, parallel.c and pack.c, any thread.
 * defines: gr_thread_start
 */
#ifndef GR_THREADS_H
#define GR_THREADS_H

#include <pthread.h>

/* Starts work(arg) in a thread whose signals are blocked, but for those that tell of a fault. Returns 0, or what
 * pthread_create says. */
int gr_thread_start(pthread_t *thread, void *(*work)(void *), void *arg);

#endif
