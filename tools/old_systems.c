/* What the headers of this machine's C and C++ libraries ask for and those of RHEL 8 don't have, in terms of what
 * they have. Linked into the relay of the wheel alone (linker_2_28.sh). */

#define HIDDEN __attribute__((visibility("hidden")))

/* Whether the C++ library may count references without atomic instructions: never in a program with threads. */
HIDDEN char __libc_single_threaded = 0;

/* std::exception_ptr's copy constructor and destructor, and std::__throw_bad_alloc. */
void copy(void *pointer, void *const *from) __asm__("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void destroy(void *pointer) __asm__("_ZNSt15__exception_ptr13exception_ptrD1Ev");
void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv");

HIDDEN void addref(void **self) __asm__("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
HIDDEN void release(void **self) __asm__("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
HIDDEN void throw_bad_array_new_length(void) __asm__("_ZSt28__throw_bad_array_new_lengthv");

/* One reference more: a copy that is never destroyed. */
void addref(void **self) {
  void *another;
  copy(&another, self);
}

/* Drops one reference: the destructor of a pointer to the same exception, of which no copy was made. */
void release(void **self) {
  void *last = *self;
  *self = 0;
  destroy(&last);
}

/* The base class of the requested exception. */
void throw_bad_array_new_length(void) { throw_bad_alloc(); }
