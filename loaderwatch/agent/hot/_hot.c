/* The hot path, compiled. The Python modules beside this file do the same and explain it. They replace this
   file where it could not be compiled.

   Arguments are not kept, except in the fields of the types. The ring's memory is written only through a held
   buffer with a checked size; its owner cannot unmap it meanwhile. Errors are Python exceptions: the callers
   pass them to the guard.

   Every call may run any Python code. That code may change the current object and let other threads run. So a
   called object is held until the call returns, and fields are read again afterwards. A field is NULL before
   __init__, after its deletion, and after garbage collection has cleared it. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if !defined(__linux__)
#error "the clocks are Linux's"
#endif
#ifdef Py_GIL_DISABLED
#error "needs the interpreter lock"
#endif

#include "_layout.h" /* made from hot/layout.py at compile time: words, places of record fields, and LAYOUT */
#define UNKNOWN INT64_MIN

static PyObject *s_task_info, *s_tasks_outstanding, *s_rcvd_idx, *s_request, *s_deliver, *s_is_cpu,
    *s_moved, *s_look_at_output, *s_loaderwatch, *s_reads, *s_tripped, *s_memory, *s_collate_fn,
    *s_record, *s_query, *s_elapsed_time, *s_launches, *s_call_impl,
    *s_compiled_call_impl, *s_wrapped_call_impl;

static int64_t now_by(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#define MONOTONIC() now_by(CLOCK_MONOTONIC)
#define THREAD_CPU() now_by(CLOCK_THREAD_CPUTIME_ID)

/* Calls without an argument if `argument` is NULL. */
static PyObject *call(PyObject *field, PyObject *argument) {
    PyObject *answer;
    if (field == NULL) {
        PyErr_SetString(PyExc_AttributeError, "a field of the hot path is not set");
        return NULL;
    }
    Py_INCREF(field);
    answer = argument == NULL ? PyObject_CallNoArgs(field) : PyObject_CallOneArg(field, argument);
    Py_DECREF(field);
    return answer;
}

/* Reads an attribute or a borrowed item as a number; -1 with an error set if it is not a number. */

static int number_of(PyObject *value, int64_t *number) {
    if (value == NULL)
        return -1;
    *number = PyLong_AsLongLong(value);
    return *number == -1 && PyErr_Occurred() ? -1 : 0;
}

static int number_and_release(PyObject *value, int64_t *number) {
    int failed = number_of(value, number);
    Py_XDECREF(value);
    return failed;
}

/* ---- the memory of a ring */

/* `view` holds the memory (view.obj is NULL while there is none); `ring` is its address. */

static void memory_drop(Py_buffer *view, char **ring) {
    *ring = NULL;
    if (view->obj != NULL)
        PyBuffer_Release(view); /* sets obj to NULL */
}

static int memory_hold(Py_buffer *view, char **ring, PyObject *value, Py_ssize_t size) {
    memory_drop(view, ring);
    if (PyObject_GetBuffer(value, view, PyBUF_WRITABLE) < 0)
        return -1;
    if (view->len < size || (uintptr_t)view->buf % 8) {
        memory_drop(view, ring);
        PyErr_SetString(PyExc_ValueError, "the memory is not that of a ring");
        return -1;
    }
    *ring = view->buf;
    return 0;
}

static int memory_set(Py_buffer *view, char **ring, PyObject *value) {
    if (value != NULL && value != Py_None)
        return memory_hold(view, ring, value, HEADER_BYTES + (Py_ssize_t)CAPACITY * SLOT_FIELDS * 8);
    memory_drop(view, ring);
    return 0;
}

static PyObject *memory_get(const Py_buffer *view) { return Py_NewRef(view->obj != NULL ? view->obj : Py_None); }

/* Stores a word of the open span atomically, after all earlier stores: another process reads at any time. */
static inline void show(char *ring, int word, int64_t value) {
    __atomic_store_n((int64_t *)(ring + WORDS_AT) + word, value, __ATOMIC_RELEASE);
}

/* ---- PhaseClock: the phases of a step */

typedef struct { /* fields of every step are adjacent */
    PyObject_HEAD
    char *ring;
    PyObject *tensor, *is_grad_enabled, *queue_callback, *backward_over;
    int64_t forward_depth, forward_since, backward_since, optimizer_since, computed_at, model_ns_before;
    int64_t h2d_ns, forward_ns, backward_ns, optimizer_ns, collective_ns, optimizer_steps, steps_finished, steps;
    int64_t until_look, looked_ns, model_ended_at, head_ns, last_head_ns;
    char has_model, has_optimizer, in_head, parameter_tells, on_host, saw_forward, exchanges, blind_backward;
    PyObject *note;
    Py_buffer view;
} Clock;

typedef struct {
    int64_t h2d, forward, backward, optimizer, optimizer_steps, collective;
} Taken;

static void clock_take(Clock *self, Taken *taken, int64_t now) {
    int known = self->has_model && self->saw_forward;
    if (self->parameter_tells && self->until_look && self->forward_ns && !self->backward_ns)
        self->parameter_tells = 0, self->blind_backward = 1; /* the parameter got no gradient this time */
    taken->h2d = self->h2d_ns;
    taken->forward = known ? self->forward_ns : UNKNOWN;
    taken->backward = known && !self->blind_backward ? self->backward_ns : UNKNOWN;
    taken->optimizer = self->has_optimizer ? self->optimizer_ns : UNKNOWN;
    taken->optimizer_steps = self->has_optimizer ? self->optimizer_steps : UNKNOWN;
    taken->collective = known && self->exchanges ? self->collective_ns : UNKNOWN;
    self->h2d_ns = UNKNOWN;
    self->forward_ns = self->backward_ns = self->optimizer_ns = self->optimizer_steps = self->collective_ns = 0;
    /* Close the phases that an exception in the user's code left open. */
    self->forward_depth = self->forward_since = self->backward_since = self->optimizer_since = 0;
    self->computed_at = 0;
    self->in_head = 0;
    if (!self->until_look)
        self->until_look = LOOK_EVERY - 1, self->looked_ns = now;
    else
        self->until_look = now - self->looked_ns < LOOK_WITHIN_NS ? self->until_look - 1 : 0;
    if (!self->until_look || !self->parameter_tells)
        self->blind_backward = 0;
}

static PyObject *clock_take_method(Clock *self, PyObject *unused) {
    Taken taken;
    clock_take(self, &taken, MONOTONIC());
    return Py_BuildValue("(LLLLLL)", (long long)taken.h2d, (long long)taken.forward, (long long)taken.backward,
                         (long long)taken.optimizer, (long long)taken.optimizer_steps, (long long)taken.collective);
}

static inline void tell(const Clock *self, int word, int64_t value) {
    if (self->ring != NULL)
        show(self->ring, word, value);
}

/* Makes the autograd engine call backward_ended; -1 with an error set. */
static int queue(Clock *self) {
    PyObject *answer, *callback = Py_XNewRef(self->backward_over);
    answer = call(self->queue_callback, callback);
    Py_XDECREF(callback);
    Py_XDECREF(answer);
    return answer == NULL ? -1 : 0;
}

/* The guard's seam: None after our fault; NULL if the guard re-raises a user's signal handler's error. */
static PyObject *swallowed(Clock *self) {
    PyObject *type, *fault, *trace, *answer;
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    PyErr_Fetch(&type, &fault, &trace);
    PyErr_NormalizeException(&type, &fault, &trace);
    if (trace != NULL)
        PyException_SetTraceback(fault, trace);
    answer = call(self->note, fault);
    Py_XDECREF(type);
    Py_XDECREF(fault);
    Py_XDECREF(trace);
    return answer;
}

/* In a closely observed step, notes that the loop begins to launch this part. None, or NULL with an error. */
static PyObject *launches(Clock *self, int part) {
    PyObject *number, *answer;
    if (self->until_look)
        Py_RETURN_NONE;
    if ((number = PyLong_FromLong(part)) == NULL)
        return NULL;
    answer = PyObject_CallMethodOneArg((PyObject *)self, s_launches, number);
    Py_DECREF(number);
    return answer != NULL ? answer : swallowed(self);
}

/* Notes a call of the outermost module; `inputs` are the positional arguments. */
static PyObject *forward_begins(Clock *self, PyObject *const *inputs, Py_ssize_t count) {
    PyObject *answer, *all;
    int64_t now;
    Py_ssize_t place;
    int on;
    if (++self->forward_depth != 1)
        Py_RETURN_NONE;
    if ((answer = call(self->is_grad_enabled, NULL)) == NULL)
        return swallowed(self);
    on = answer == Py_True;
    Py_DECREF(answer);
    if (!on || self->backward_since)
        Py_RETURN_NONE;
    self->forward_since = now = MONOTONIC();
    tell(self, FORWARD_WORD, now);
    self->saw_forward = 1;
    if (self->forward_ns || (self->on_host && self->until_look) || count == 0)
        Py_RETURN_NONE;
    if ((PyObject *)Py_TYPE(inputs[0]) == self->tensor) {
        if ((answer = PyObject_GetAttr(inputs[0], s_is_cpu)) == NULL)
            return swallowed(self);
        self->on_host = answer == Py_True;
        Py_DECREF(answer);
        if (self->on_host)
            Py_RETURN_NONE;
    } else {
        self->on_host = 0;
    }
    if ((all = PyTuple_New(count)) == NULL)
        return swallowed(self);
    for (place = 0; place < count; place++)
        PyTuple_SET_ITEM(all, place, Py_NewRef(inputs[place]));
    answer = PyObject_CallMethodOneArg((PyObject *)self, s_moved, all);
    Py_DECREF(all);
    return answer != NULL ? answer : swallowed(self);
}

static PyObject *forward_ends(Clock *self, PyObject *module, PyObject *output) {
    PyObject *answer;
    int64_t since = self->forward_since;
    if (self->forward_depth > 0)
        self->forward_depth--;
    if (self->forward_depth || !since)
        Py_RETURN_NONE;
    self->model_ended_at = MONOTONIC();
    self->forward_ns += self->model_ended_at - since;
    self->forward_since = 0;
    tell(self, FORWARD_WORD, UNKNOWN);
    if (self->parameter_tells && self->until_look)
        Py_RETURN_NONE;
    answer = PyObject_CallMethodObjArgs((PyObject *)self, s_look_at_output, module, output, NULL);
    return answer != NULL ? answer : swallowed(self);
}

static PyObject *clock_forward_began(Clock *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "forward_began takes the module and its inputs");
        return NULL;
    }
    if (!PyTuple_Check(args[1]))
        return forward_begins(self, NULL, 0);
    return forward_begins(self, &PyTuple_GET_ITEM(args[1], 0), PyTuple_GET_SIZE(args[1]));
}

static PyObject *clock_forward_ended(Clock *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "forward_ended takes the module, its inputs and its output");
        return NULL;
    }
    return forward_ends(self, args[0], args[2]);
}

static PyObject *clock_gradient_came(Clock *self, PyObject *const *args, Py_ssize_t count) {
    int64_t now;
    (void)args, (void)count; /* the engine's arguments of a hook */
    if (self->backward_since)
        Py_RETURN_NONE;
    if (queue(self) < 0)
        return swallowed(self);
    self->backward_since = now = MONOTONIC();
    self->in_head = 1;
    self->parameter_tells = 0;
    tell(self, BACKWARD_WORD, now);
    return launches(self, BACKWARD_PART);
}

static PyObject *clock_parameter_came(Clock *self, PyObject *const *args, Py_ssize_t count) {
    int64_t now, head;
    (void)args, (void)count;
    if (self->backward_since) {
        if (self->in_head) {
            head = MONOTONIC() - self->backward_since;
            self->parameter_tells = self->last_head_ns != INT64_MAX; /* not the head of the first step */
            self->head_ns = head < self->last_head_ns ? head : self->last_head_ns;
            self->last_head_ns = head;
            self->in_head = 0;
        }
        Py_RETURN_NONE;
    }
    if (queue(self) < 0)
        return swallowed(self);
    now = MONOTONIC() - self->head_ns;
    self->backward_since = now = now > self->model_ended_at ? now : self->model_ended_at;
    tell(self, BACKWARD_WORD, now);
    Py_RETURN_NONE;
}

static PyObject *clock_backward_ended(Clock *self, PyObject *unused) {
    int64_t now, since = self->backward_since;
    if (!since)
        Py_RETURN_NONE;
    now = MONOTONIC();
    if (self->exchanges) {
        if (!self->computed_at) {
            self->computed_at = now;
            /* Callbacks run in order: this one runs after DDP's, which waits for other ranks' gradients. */
            if (queue(self) < 0)
                return swallowed(self);
            return launches(self, OTHER_PART);
        }
        self->collective_ns += now - self->computed_at;
        self->computed_at = 0;
    }
    self->backward_ns += now - since;
    self->backward_since = 0;
    self->in_head = 0;
    if (self->optimizer_since && self->optimizer_since < self->model_ended_at)
        self->model_ns_before -= since - self->model_ended_at; /* the closure's loss, between the passes */
    self->model_ended_at = now;
    tell(self, BACKWARD_WORD, UNKNOWN);
    if (self->exchanges)
        Py_RETURN_NONE;
    return launches(self, OTHER_PART);
}

static PyObject *clock_optimizer_began(Clock *self, PyObject *const *args, Py_ssize_t count) {
    (void)args, (void)count;
    if (self->optimizer_since)
        Py_RETURN_NONE;
    self->model_ns_before = self->forward_ns + self->backward_ns;
    self->optimizer_since = MONOTONIC();
    tell(self, OPTIMIZER_WORD, self->optimizer_since);
    return launches(self, OPTIMIZER_PART);
}

/* Ends an optimizer step; returns whether one was open. */
static inline int optimizer_over(Clock *self) {
    int64_t inside, since = self->optimizer_since;
    if (!since)
        return 0;
    inside = self->forward_ns + self->backward_ns - self->model_ns_before; /* a closure's time in the model */
    self->optimizer_ns += MONOTONIC() - since - inside;
    self->optimizer_since = 0;
    return 1;
}

static PyObject *clock_optimizer_ended(Clock *self, PyObject *const *args, Py_ssize_t count) {
    (void)args, (void)count;
    if (!optimizer_over(self))
        Py_RETURN_NONE;
    self->optimizer_steps++;
    self->steps_finished++;
    tell(self, STEPS_WORD, ++self->steps);
    tell(self, OPTIMIZER_WORD, UNKNOWN);
    return launches(self, OTHER_PART);
}

static PyObject *clock_other_optimizer_ended(Clock *self, PyObject *const *args, Py_ssize_t count) {
    (void)args, (void)count;
    if (!optimizer_over(self))
        Py_RETURN_NONE;
    tell(self, OPTIMIZER_WORD, UNKNOWN);
    return launches(self, OTHER_PART);
}

static int clock_traverse(Clock *self, visitproc visit, void *arg) {
    Py_VISIT(self->view.obj);
    Py_VISIT(self->tensor);
    Py_VISIT(self->is_grad_enabled);
    Py_VISIT(self->queue_callback);
    Py_VISIT(self->backward_over);
    Py_VISIT(self->note);
    return 0;
}

static int clock_clear(Clock *self) {
    memory_drop(&self->view, &self->ring);
    Py_CLEAR(self->tensor);
    Py_CLEAR(self->is_grad_enabled);
    Py_CLEAR(self->queue_callback);
    Py_CLEAR(self->backward_over);
    Py_CLEAR(self->note);
    return 0;
}

static void clock_dealloc(Clock *self) {
    PyObject_GC_UnTrack(self);
    clock_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int clock_init(Clock *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"memory", "tensor", "is_grad_enabled", "queue_callback", "note", NULL};
    PyObject *memory, *tensor, *is_grad_enabled, *queue_callback, *note;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOO", names, &memory, &tensor, &is_grad_enabled, &queue_callback,
                                     &note))
        return -1;
    clock_clear(self);
    if (memory_set(&self->view, &self->ring, memory) < 0)
        return -1;
    self->tensor = Py_NewRef(tensor);
    self->is_grad_enabled = Py_NewRef(is_grad_enabled);
    self->queue_callback = Py_NewRef(queue_callback);
    self->note = Py_NewRef(note);
    self->h2d_ns = UNKNOWN;
    self->last_head_ns = INT64_MAX;
    self->looked_ns = MONOTONIC();
    self->backward_over = PyObject_GetAttrString((PyObject *)self, "backward_ended");
    return self->backward_over == NULL ? -1 : 0;
}

static PyObject *clock_get_memory(Clock *self, void *unused) { return memory_get(&self->view); }
static int clock_set_memory(Clock *self, PyObject *value, void *unused) { return memory_set(&self->view, &self->ring, value); }

#define INTEGER(type, name) {#name, T_LONGLONG, offsetof(type, name), 0, NULL}
#define FLAG(type, name) {#name, T_BOOL, offsetof(type, name), 0, NULL}
#define OBJECT(type, name) {#name, T_OBJECT_EX, offsetof(type, name), 0, NULL}

static PyMemberDef clock_members[] = {
    INTEGER(Clock, steps),          INTEGER(Clock, h2d_ns),         INTEGER(Clock, forward_ns),
    INTEGER(Clock, backward_ns),    INTEGER(Clock, forward_depth),  INTEGER(Clock, forward_since),
    INTEGER(Clock, backward_since), INTEGER(Clock, collective_ns),  INTEGER(Clock, steps_finished),
    INTEGER(Clock, until_look),     INTEGER(Clock, looked_ns),      INTEGER(Clock, head_ns),
    INTEGER(Clock, model_ended_at), FLAG(Clock, has_model),         FLAG(Clock, has_optimizer),
    FLAG(Clock, parameter_tells),   FLAG(Clock, on_host),           FLAG(Clock, saw_forward),
    FLAG(Clock, exchanges),         FLAG(Clock, blind_backward),
    {NULL},
};

static PyGetSetDef clock_getset[] = {
    {"memory", (getter)clock_get_memory, (setter)clock_set_memory, NULL, NULL},
    {NULL},
};

#define METHOD(name, function, flags) {name, (PyCFunction)(void (*)(void))function, flags, NULL}

static PyMethodDef clock_methods[] = {
    METHOD("take", clock_take_method, METH_NOARGS),
    METHOD("forward_began", clock_forward_began, METH_FASTCALL),
    METHOD("forward_ended", clock_forward_ended, METH_FASTCALL),
    METHOD("gradient_came", clock_gradient_came, METH_FASTCALL),
    METHOD("parameter_came", clock_parameter_came, METH_FASTCALL),
    METHOD("backward_ended", clock_backward_ended, METH_NOARGS),
    METHOD("optimizer_began", clock_optimizer_began, METH_FASTCALL),
    METHOD("optimizer_ended", clock_optimizer_ended, METH_FASTCALL),
    METHOD("other_optimizer_ended", clock_other_optimizer_ended, METH_FASTCALL),
    {NULL},
};

static PyTypeObject ClockType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "loaderwatch.agent.hot._hot.PhaseClock",
    .tp_basicsize = sizeof(Clock),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)clock_init,
    .tp_dealloc = (destructor)clock_dealloc,
    .tp_traverse = (traverseproc)clock_traverse,
    .tp_clear = (inquiry)clock_clear,
    .tp_members = clock_members,
    .tp_getset = clock_getset,
    .tp_methods = clock_methods,
};

/* ---- TimedCall: the call of one model. CallsOf: the class attribute that gives a module its TimedCall */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *clock, *model, *before; /* model: a weak reference */
} Call;

/* Notes that a forward pass raised. The user's code may catch the exception. */
static void forward_fails(Clock *self) {
    if (self->forward_depth > 0 && --self->forward_depth == 0)
        self->forward_since = 0;
}

static PyObject *call_timed(Call *self, Clock *clock, PyObject *model, PyObject *own, PyObject *const *args, size_t count,
                            PyObject *names) {
    PyObject *answer, *done;
    if (self->before != NULL && self->before != Py_None) {
        if ((done = call(self->before, NULL)) == NULL)
            return NULL;
        Py_DECREF(done);
    }
    if ((done = forward_begins(clock, args, PyVectorcall_NARGS(count))) == NULL)
        return NULL;
    Py_DECREF(done);
    if ((answer = PyObject_Vectorcall(own, args, count, names)) == NULL) {
        forward_fails(clock);
        return NULL;
    }
    if ((done = forward_ends(clock, model, answer)) == NULL)
        Py_CLEAR(answer);
    Py_XDECREF(done);
    return answer;
}

static PyObject *call_model(Call *self, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *answer = NULL, *model = call(self->model, NULL), *clock = Py_XNewRef(self->clock);
    PyObject *own = model == NULL ? NULL : PyObject_GetAttr(model, s_call_impl);
    if (own != NULL && clock != NULL && PyObject_TypeCheck(clock, &ClockType))
        answer = call_timed(self, (Clock *)clock, model, own, args, count, names);
    else if (own != NULL)
        answer = PyObject_Vectorcall(own, args, count, names);
    Py_XDECREF(own);
    Py_XDECREF(clock);
    Py_XDECREF(model);
    return answer;
}

static int call_init(Call *self, PyObject *args, PyObject *kwargs) {
    PyObject *clock, *model;
    if (!PyArg_ParseTuple(args, "O!O", &ClockType, &clock, &model))
        return -1;
    Py_XSETREF(self->clock, Py_NewRef(clock));
    Py_XSETREF(self->model, Py_NewRef(model));
    Py_XSETREF(self->before, Py_NewRef(Py_None));
    self->vectorcall = (vectorcallfunc)call_model;
    return 0;
}

static int call_traverse(Call *self, visitproc visit, void *arg) {
    Py_VISIT(self->clock);
    Py_VISIT(self->model);
    Py_VISIT(self->before);
    return 0;
}

static int call_clear(Call *self) {
    Py_CLEAR(self->clock);
    Py_CLEAR(self->model);
    Py_CLEAR(self->before);
    return 0;
}

static void call_dealloc(Call *self) {
    PyObject_GC_UnTrack(self);
    call_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMemberDef call_members[] = {
    OBJECT(Call, clock),
    {"model", T_OBJECT_EX, offsetof(Call, model), READONLY, NULL}, OBJECT(Call, before), {NULL},
};

static PyTypeObject CallType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "loaderwatch.agent.hot._hot.TimedCall",
    .tp_basicsize = sizeof(Call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Call, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)call_init,
    .tp_dealloc = (destructor)call_dealloc,
    .tp_traverse = (traverseproc)call_traverse,
    .tp_clear = (inquiry)call_clear,
    .tp_members = call_members,
};

/* Our field, a tuple of TimedCall, lies behind the fields of `property`, which no header declares. */
static PyObject **calls_of(PyObject *self) { return (PyObject **)((char *)self + PyProperty_Type.tp_basicsize); }

/* The value that Module.compile has set on the module takes precedence. A new reference, or NULL. */
static PyObject *set_on(PyObject *module) {
    PyObject *found = NULL, *fields = PyObject_GenericGetDict(module, NULL);
    if (fields == NULL)
        PyErr_Clear();
    else
        found = Py_XNewRef(PyDict_GetItemWithError(fields, s_compiled_call_impl));
    Py_XDECREF(fields);
    if (found == Py_None) /* some code undoes Module.compile in this way */
        Py_CLEAR(found);
    return found;
}

/* Whether Module.__call__ reads the attribute. For other code a watched model looks like any other. */
static int is_called(void) {
    PyFrameObject *frame = PyEval_GetFrame(); /* borrowed */
    PyCodeObject *code = frame == NULL ? NULL : PyFrame_GetCode(frame);
    int is = code != NULL && code->co_name == s_wrapped_call_impl; /* both are interned */
    Py_XDECREF(code);
    return is;
}

static PyObject *calls_get(PyObject *self, PyObject *module, PyObject *type) {
    Py_ssize_t place;
    PyObject *model, *calls, *one;
    if (module == NULL)
        return Py_NewRef(self);
    if ((one = set_on(module)) != NULL || PyErr_Occurred())
        return one;
    calls = Py_XNewRef(*calls_of(self));
    for (place = 0; calls != NULL && one == NULL && place < PyTuple_GET_SIZE(calls); place++) {
        one = PyTuple_GET_ITEM(calls, place);
        model = Py_IS_TYPE(one, &CallType) ? call(((Call *)one)->model, NULL) : NULL;
        if (model != module)
            one = NULL;
        if (model == NULL)
            PyErr_Clear();
        Py_XDECREF(model);
    }
    one = Py_NewRef(one != NULL && is_called() ? one : Py_None);
    Py_XDECREF(calls);
    return one;
}

static int calls_set(PyObject *self, PyObject *module, PyObject *value) {
    int failed;
    PyObject *fields = PyObject_GenericGetDict(module, NULL);
    if (fields == NULL)
        return -1;
    if (value != NULL)
        failed = PyDict_SetItem(fields, s_compiled_call_impl, value);
    else if ((failed = PyDict_DelItem(fields, s_compiled_call_impl)) < 0 && PyErr_ExceptionMatches(PyExc_KeyError))
        PyErr_SetObject(PyExc_AttributeError, s_compiled_call_impl);
    Py_DECREF(fields);
    return failed;
}

static int calls_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(*calls_of(self));
    return PyProperty_Type.tp_traverse(self, visit, arg);
}

static int calls_clear(PyObject *self) {
    Py_CLEAR(*calls_of(self));
    return PyProperty_Type.tp_clear == NULL ? 0 : PyProperty_Type.tp_clear(self);
}

static void calls_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    Py_CLEAR(*calls_of(self));
    PyObject_GC_Track(self); /* the base class untracks it again */
    PyProperty_Type.tp_dealloc(self);
}

static PyObject *calls_get_calls(PyObject *self, void *unused) {
    return *calls_of(self) == NULL ? PyTuple_New(0) : Py_NewRef(*calls_of(self));
}

static int calls_set_calls(PyObject *self, PyObject *value, void *unused) {
    if (value == NULL || !PyTuple_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "a tuple of calls is expected");
        return -1;
    }
    Py_XSETREF(*calls_of(self), Py_NewRef(value));
    return 0;
}

static PyGetSetDef calls_getset[] = {
    {"calls", calls_get_calls, calls_set_calls, NULL, NULL},
    {NULL},
};

static PyTypeObject CallsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "loaderwatch.agent.hot._hot.CallsOf",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_descr_get = calls_get,
    .tp_descr_set = calls_set,
    .tp_dealloc = calls_dealloc,
    .tp_traverse = calls_traverse,
    .tp_clear = calls_clear,
    .tp_getset = calls_getset,
};

/* ---- DeviceClock: how long the device itself lacked each batch, by its own events */

#define LONGEST_MS 1e9 /* eleven days: sums of thousands of such times still fit into a number */

typedef struct { /* the events of one batch */
    PyObject *requested, *delivered, *left, *marks; /* left: next request; marks: pairs of part and event */
    int64_t loader, epoch, batch, request_ns;
    int64_t reached_ns; /* the first query at which the device had reached `left` */
    double unreached_ns; /* the last query at which the device had not reached `left` */
} Timed;

typedef struct {
    PyObject_HEAD
    PyObject *make_event, *is_capturing, *numbers, *writer, *parts_of, *reached;
    Timed current; /* requested is NULL while there is no current batch */
    Timed *pending;
    PyObject **free; /* reusable events, the newest last */
    Py_ssize_t frees, room;
    /* known: how many of the first `held` batches the device has reached */
    int64_t oldest, held, known, capacity, device_ns, bounded_at_ns, read_ns;
    double least_ns, most_ns; /* bounds of the loop's clock minus the device's */
    char gives_up;
    char *ring;
    Py_buffer view;
} Device;

static void timed_drop(Timed *one) {
    Timed was = *one;
    memset(one, 0, sizeof *one);
    Py_XDECREF(was.requested);
    Py_XDECREF(was.delivered);
    Py_XDECREF(was.left);
    Py_XDECREF(was.marks);
}

static void device_drop_all(Device *self) {
    timed_drop(&self->current);
    self->known = 0;
    while (self->held) {
        self->held--;
        timed_drop(&self->pending[(self->oldest + self->held) % MAX_PENDING]);
    }
}

/* Whether the answer of a callable or method is true; -1 with an error set. */
static int is_true(PyObject *answer) {
    int yes = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return yes;
}

/* Records an event on the stream; returns a new reference. */
static PyObject *device_record(Device *self) {
    PyObject *answer, *event = self->frees ? self->free[--self->frees] : call(self->make_event, NULL);
    if (event == NULL)
        return NULL;
    answer = PyObject_CallMethodNoArgs(event, s_record);
    if (answer == NULL)
        Py_CLEAR(event);
    Py_XDECREF(answer);
    return event;
}

/* Time from one event to another in ns; -1 with an error set. */
static int elapsed(PyObject *from, PyObject *to, int64_t *ns) {
    PyObject *answer = PyObject_CallMethodOneArg(from, s_elapsed_time, to);
    double ms = answer == NULL ? -1.0 : PyFloat_AsDouble(answer);
    Py_XDECREF(answer);
    if (ms == -1.0 && PyErr_Occurred())
        return -1;
    if (!(ms > -LONGEST_MS && ms < LONGEST_MS)) { /* also true for NaN */
        PyErr_SetString(PyExc_RuntimeError, "the time between two events is out of range");
        return -1;
    }
    *ns = (int64_t)(ms * 1e6);
    return 0;
}

/* Applies new bounds. If they contradict the old ones by far, a clock jumped and only the new ones count. */
static void device_narrow(Device *self, double least, double most, int64_t now) {
    double loose = DRIFT_PPM * 1e-6 * (double)(now - self->bounded_at_ns);
    self->bounded_at_ns = now;
    self->least_ns = self->least_ns - loose > least ? self->least_ns - loose : least;
    self->most_ns = self->most_ns + loose < most ? self->most_ns + loose : most;
    if (self->least_ns > self->most_ns + JUMP_NS)
        self->least_ns = least, self->most_ns = most;
}

static int device_write(Device *self, const Timed *one, int64_t starved, int64_t step, int64_t slack, const int64_t *parts) {
    int64_t number, *slot;
    int failed = -1;
    PyObject *memory, *value, *numbers = Py_XNewRef(self->numbers), *writer = Py_XNewRef(self->writer);
    value = numbers != NULL && writer != NULL ? PyIter_Next(numbers) : NULL;
    Py_XDECREF(numbers);
    memory = value == NULL ? NULL : PyObject_GetAttr(writer, s_memory);
    Py_XDECREF(writer);
    if (memory == NULL || number_and_release(value, &number) < 0 || number < 1) {
        if (memory == NULL)
            Py_XDECREF(value);
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "records are numbered from 1");
    } else if ((self->ring != NULL && self->view.obj == memory) ||
               memory_hold(&self->view, &self->ring, memory, HEADER_BYTES + (Py_ssize_t)self->capacity * SLOT_FIELDS * 8) == 0) {
        slot = (int64_t *)(self->ring + HEADER_BYTES) + (number - 1) % self->capacity * SLOT_FIELDS;
        slot[0] = number;
        __atomic_thread_fence(__ATOMIC_RELEASE);
        memset(slot + 1, 0, (SLOT_FIELDS - 2) * sizeof *slot);
        slot[1] = GPU_WAIT;
        slot[GPU_WAIT_LOADER] = one->loader;
        slot[GPU_WAIT_EPOCH] = one->epoch;
        slot[GPU_WAIT_BATCH] = one->batch;
        slot[GPU_WAIT_REQUEST_NS] = one->request_ns;
        slot[GPU_WAIT_STARVED_NS] = starved;
        slot[GPU_WAIT_GPU_STEP_NS] = step;
        slot[GPU_WAIT_SLACK_NS] = slack;
        memcpy(slot + GPU_WAIT_GPU_H2D_NS, parts, PARTS * sizeof *slot);
        __atomic_store_n(slot + SLOT_FIELDS - 1, number, __ATOMIC_RELEASE);
        show(self->ring, CURSOR_WORD, number);
        memory_drop(&self->view, &self->ring);
        failed = 0;
    }
    Py_XDECREF(memory);
    return failed;
}

/* The device time of a batch's parts in ns; UNKNOWN without marks. */
static int device_parts(Device *self, const Timed *one, int64_t *parts) {
    PyObject *told, *function;
    int place, failed = 0;
    for (place = 0; place < PARTS; place++)
        parts[place] = UNKNOWN;
    if (one->marks == NULL)
        return 0;
    if ((function = Py_XNewRef(self->parts_of)) == NULL) {
        PyErr_SetString(PyExc_AttributeError, "a field of the hot path is not set");
        return -1;
    }
    told = PyObject_CallFunctionObjArgs(function, one->delivered, one->left, one->marks, NULL);
    Py_DECREF(function);
    if (told == NULL)
        return -1;
    if (!PyTuple_Check(told) || PyTuple_GET_SIZE(told) != PARTS) {
        PyErr_SetString(PyExc_TypeError, "a tuple of the time of each part is expected");
        failed = -1;
    }
    for (place = 0; !failed && place < PARTS; place++)
        failed = number_of(PyTuple_GET_ITEM(told, place), parts + place);
    Py_DECREF(told);
    return failed;
}

/* Keeps a batch's events for reuse, except `left`, which belongs to the next batch. */
static int device_reuse(Device *self, const Timed *one) {
    Py_ssize_t index, marks = one->marks == NULL ? 0 : PyList_GET_SIZE(one->marks), more = 2 + marks;
    if (self->frees + more > self->room) {
        PyObject **larger = PyMem_Realloc(self->free, (size_t)(2 * self->room + more) * sizeof *larger);
        if (larger == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        self->free = larger;
        self->room = 2 * self->room + more;
    }
    self->free[self->frees++] = Py_NewRef(one->requested);
    self->free[self->frees++] = Py_NewRef(one->delivered);
    for (index = 0; index < marks; index++)
        self->free[self->frees++] = Py_NewRef(PyTuple_GET_ITEM(PyList_GET_ITEM(one->marks, index), 1));
    return 0;
}

/* Reads the events of a batch and writes its record. The device must have reached them all. */
static int device_read_one(Device *self, const Timed *one) {
    int64_t starved, step, between = 0, requested_ns, parts[PARTS];
    double least, seen;
    PyObject *reached = Py_XNewRef(self->reached);
    int failed = elapsed(one->requested, one->delivered, &starved) < 0 || elapsed(one->delivered, one->left, &step) < 0 ||
                 (reached != NULL && reached != one->requested && elapsed(reached, one->requested, &between) < 0) ||
                 device_parts(self, one, parts) < 0;
    Py_XDECREF(reached);
    if (failed)
        return -1;
    requested_ns = self->device_ns + between; /* `between` is above 0 if an epoch ended in between */
    self->device_ns = requested_ns + starved + step;
    least = (double)(one->request_ns - requested_ns);
    seen = one->unreached_ns - (double)self->device_ns;
    device_narrow(self, least > seen ? least : seen, (double)(one->reached_ns - self->device_ns), one->reached_ns);
    seen = (double)requested_ns + self->least_ns - (double)one->request_ns;
    Py_XSETREF(self->reached, Py_NewRef(one->left));
    return device_write(self, one, starved, step, seen > 0 ? (int64_t)seen : 0, parts) < 0 ? -1 : device_reuse(self, one);
}

/* Reads the batches that the device has reached. */
static int device_read(Device *self) {
    while (self->known) {
        int failed;
        Timed *first = &self->pending[self->oldest], one = *first;
        memset(first, 0, sizeof *first);
        self->oldest = (self->oldest + 1) % MAX_PENDING;
        self->held--;
        self->known--;
        failed = device_read_one(self, &one);
        timed_drop(&one);
        if (failed)
            return -1;
    }
    return 0;
}

static int device_collect(Device *self) {
    int64_t now = MONOTONIC();
    while (self->known < self->held) {
        int64_t place = self->known;
        Timed *one = &self->pending[(self->oldest + place) % MAX_PENDING];
        PyObject *left = Py_NewRef(one->left);
        int same, reached = is_true(PyObject_CallMethodNoArgs(left, s_query));
        one = &self->pending[(self->oldest + place) % MAX_PENDING];
        /* If it is not the same, other code has read this batch in the meantime. */
        same = self->known == place && place < self->held && one->left == left;
        Py_DECREF(left);
        if (reached < 0 || !same)
            return reached < 0 ? -1 : 0;
        if (!reached) {
            one->unreached_ns = (double)now;
            break;
        }
        one->reached_ns = now;
        self->known++;
    }
    if (!self->known || (self->known < READ_TOGETHER && now - self->read_ns < READ_WITHIN_NS))
        return 0;
    self->read_ns = now;
    return device_read(self);
}

static int device_ask(Device *self) {
    Timed before;
    PyObject *event;
    int capturing = is_true(call(self->is_capturing, NULL));
    if (capturing) { /* an event would become part of the user's graph */
        timed_drop(&self->current);
        return capturing < 0 ? -1 : 0;
    }
    if ((event = device_record(self)) == NULL)
        return -1;
    before = self->current;
    memset(&self->current, 0, sizeof self->current);
    self->current.requested = event;
    self->current.unreached_ns = -INFINITY;
    if (before.delivered == NULL || self->pending == NULL) {
        timed_drop(&before);
    } else {
        before.left = Py_NewRef(event);
        if (self->held == MAX_PENDING) { /* the device may still reach the oldest events: do not reuse them */
            Timed first = self->pending[self->oldest];
            self->oldest = (self->oldest + 1) % MAX_PENDING;
            self->held--;
            self->known -= self->known > 0;
            timed_drop(&first);
        }
        self->pending[(self->oldest + self->held++) % MAX_PENDING] = before;
    }
    return device_collect(self);
}

/* Calls `asked` unless the device was given up before; -1 with an error set. */
static int device_unless_given_up(Device *self, int (*asked)(Device *)) {
    if (self->gives_up || asked(self) == 0)
        return 0;
    if (!PyErr_ExceptionMatches(PyExc_RuntimeError))
        return -1;
    PyErr_Clear(); /* the device is lost or its events have no time: then only the loop's waits count */
    self->gives_up = 1;
    device_drop_all(self);
    return 0;
}

static int device_request(Device *self) { return device_unless_given_up(self, device_ask); }

static int device_deliver(Device *self, int64_t loader, int64_t epoch, int64_t batch, int64_t request_ns) {
    PyObject *event;
    if (self->current.requested == NULL) /* no request was noted, or a graph was captured at the request */
        return 0;
    if ((event = device_record(self)) == NULL)
        return -1;
    if (self->current.requested == NULL) { /* other code ran in between */
        Py_DECREF(event);
        return 0;
    }
    Py_XSETREF(self->current.delivered, event);
    self->current.loader = loader;
    self->current.epoch = epoch;
    self->current.batch = batch;
    self->current.request_ns = request_ns;
    return 0;
}

static PyObject *device_mark(Device *self, PyObject *part) {
    PyObject *event, *pair;
    int failed, capturing;
    if (self->current.delivered == NULL || (self->current.marks != NULL && PyList_GET_SIZE(self->current.marks) >= MAX_MARKS))
        Py_RETURN_NONE;
    if ((capturing = is_true(call(self->is_capturing, NULL))) < 0)
        return NULL;
    if (capturing)
        Py_RETURN_NONE;
    if ((event = device_record(self)) == NULL)
        return NULL;
    pair = PyTuple_Pack(2, part, event);
    Py_DECREF(event);
    failed = pair == NULL || (self->current.marks == NULL && (self->current.marks = PyList_New(0)) == NULL) ||
             PyList_Append(self->current.marks, pair) < 0;
    Py_XDECREF(pair);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyObject *device_request_method(Device *self, PyObject *unused) {
    return device_request(self) < 0 ? NULL : Py_NewRef(Py_None);
}

/* Does nothing while a graph is captured: querying events may end the capture. */
static int device_read_rest(Device *self) {
    int capturing = self->known ? is_true(call(self->is_capturing, NULL)) : 1;
    return capturing ? (capturing < 0 ? -1 : 0) : device_read(self);
}

static PyObject *device_read_method(Device *self, PyObject *unused) {
    return device_unless_given_up(self, device_read_rest) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *device_deliver_method(Device *self, PyObject *args) {
    long long loader, epoch, batch, request_ns;
    if (!PyArg_ParseTuple(args, "LLLL", &loader, &epoch, &batch, &request_ns))
        return NULL;
    return device_deliver(self, loader, epoch, batch, request_ns) < 0 ? NULL : Py_NewRef(Py_None);
}

static int timed_visit(const Timed *one, visitproc visit, void *arg) {
    Py_VISIT(one->requested);
    Py_VISIT(one->delivered);
    Py_VISIT(one->left);
    Py_VISIT(one->marks);
    return 0;
}

static int device_traverse(Device *self, visitproc visit, void *arg) {
    int64_t index;
    int answer = timed_visit(&self->current, visit, arg);
    for (index = 0; !answer && index < self->held; index++)
        answer = timed_visit(&self->pending[(self->oldest + index) % MAX_PENDING], visit, arg);
    if (answer)
        return answer;
    Py_VISIT(self->view.obj);
    Py_VISIT(self->make_event);
    Py_VISIT(self->is_capturing);
    for (index = 0; index < self->frees; index++)
        Py_VISIT(self->free[index]);
    Py_VISIT(self->numbers);
    Py_VISIT(self->writer);
    Py_VISIT(self->parts_of);
    Py_VISIT(self->reached);
    return 0;
}

static int device_clear(Device *self) {
    memory_drop(&self->view, &self->ring);
    device_drop_all(self);
    Py_CLEAR(self->make_event);
    Py_CLEAR(self->is_capturing);
    while (self->frees)
        Py_DECREF(self->free[--self->frees]);
    Py_CLEAR(self->numbers);
    Py_CLEAR(self->writer);
    Py_CLEAR(self->parts_of);
    Py_CLEAR(self->reached);
    return 0;
}

static void device_dealloc(Device *self) {
    PyObject_GC_UnTrack(self);
    device_clear(self);
    PyMem_Free(self->pending);
    PyMem_Free(self->free);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int device_init(Device *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"ring", "make_event", "is_capturing", "parts_of", NULL};
    PyObject *writer, *make_event, *is_capturing, *parts_of, *capacity;
    int64_t slots;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO", names, &writer, &make_event, &is_capturing, &parts_of))
        return -1;
    device_clear(self);
    if ((self->numbers = PyObject_GetAttrString(writer, "numbers")) == NULL)
        return -1;
    capacity = PyIter_Check(self->numbers) ? PyObject_GetAttrString(writer, "capacity") : NULL;
    if (number_and_release(capacity, &slots) < 0 || slots < 1 || slots > CAPACITY) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "that is no ring to write");
        return -1;
    }
    if (self->pending == NULL && (self->pending = PyMem_Calloc(MAX_PENDING, sizeof *self->pending)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->capacity = slots;
    self->writer = Py_NewRef(writer);
    self->make_event = Py_NewRef(make_event);
    self->is_capturing = Py_NewRef(is_capturing);
    self->parts_of = Py_NewRef(parts_of);
    self->least_ns = -INFINITY;
    self->most_ns = INFINITY;
    self->oldest = self->device_ns = self->bounded_at_ns = self->read_ns = 0;
    self->gives_up = 0;
    return 0;
}

static PyMethodDef device_methods[] = {
    METHOD("request", device_request_method, METH_NOARGS),
    METHOD("read", device_read_method, METH_NOARGS),
    METHOD("deliver", device_deliver_method, METH_VARARGS),
    METHOD("mark", device_mark, METH_O),
    {NULL},
};

static PyTypeObject DeviceType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "loaderwatch.agent.hot._hot.DeviceClock",
    .tp_basicsize = sizeof(Device),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)device_init,
    .tp_dealloc = (destructor)device_dealloc,
    .tp_traverse = (traverseproc)device_traverse,
    .tp_clear = (inquiry)device_clear,
    .tp_methods = device_methods,
};

/* ---- Pass: one pass over a loader */

typedef struct {
    PyObject_HEAD
    char *ring;
    unsigned long thread;
    PyObject *phases, *numbers, *free;
    int64_t loader, number, batch, step_ahead;
    int64_t wait_since_ns, wait_ns, wait_cpu_ns, cpu_ns, delivered_ns;
    int64_t ready, cached, awaited, limit;
    PyObject *read, *recorder, *gpu;
    char armed;
    Py_buffer view;
} Pass;

/* Reads the iterator's state with its own reader. */
static int ask_reader(Pass *self, PyObject *iterator) {
    int failed = -1;
    PyObject *seen = call(self->read, iterator);
    if (seen != NULL && PyTuple_Check(seen) && PyTuple_GET_SIZE(seen) == 3) {
        if (number_of(PyTuple_GET_ITEM(seen, 0), &self->ready) == 0 &&
            number_of(PyTuple_GET_ITEM(seen, 1), &self->cached) == 0)
            failed = number_of(PyTuple_GET_ITEM(seen, 2), &self->awaited);
    } else if (seen != NULL) {
        PyErr_SetString(PyExc_TypeError, "a reader answers with three numbers");
    }
    Py_XDECREF(seen);
    return failed;
}

/* The worker of the next task. */
static int look_at_task(PyObject *tasks, PyObject *index, int64_t *worker) {
    PyObject *task = PyDict_GetItemWithError(tasks, index); /* borrowed */
    if (task == NULL || !PyTuple_Check(task) || PyTuple_GET_SIZE(task) == 0) {
        if (!PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, index);
        return -1;
    }
    return number_and_release(Py_NewRef(PyTuple_GET_ITEM(task, 0)), worker);
}

/* Reads the state of the usual iterator: worker processes, a map-style dataset, batches in order. */
static int look(Pass *self, PyObject *iterator) {
    PyObject *tasks, *index;
    int64_t free, outstanding;
    Py_ssize_t held;
    int failed = -1;
    if (number_and_release(call(self->free, NULL), &free) < 0 || (tasks = PyObject_GetAttr(iterator, s_task_info)) == NULL)
        return -1;
    if (!PyDict_Check(tasks)) {
        PyErr_SetString(PyExc_TypeError, "_task_info is no dict");
    } else if (number_and_release(PyObject_GetAttr(iterator, s_tasks_outstanding), &outstanding) == 0) {
        held = PyDict_Size(tasks);
        self->awaited = ENDING;
        if (__builtin_sub_overflow(self->limit, free, &self->ready) ||
            __builtin_sub_overflow((int64_t)held, outstanding, &self->cached)) {
            self->ready = self->cached = UNKNOWN;
            PyErr_SetString(PyExc_OverflowError, "no count of batches");
        } else if (held == 0) {
            failed = 0;
        } else if ((index = PyObject_GetAttr(iterator, s_rcvd_idx)) != NULL) {
            failed = look_at_task(tasks, index, &self->awaited);
            Py_DECREF(index);
        }
    }
    Py_DECREF(tasks);
    return failed;
}

/* Whether this thread may take the hot path now. */
static int is_hot(const Pass *self) {
    return self->thread != 0 && self->ring != NULL && self->numbers != NULL && self->phases != NULL &&
           self->thread == PyThread_get_thread_ident() &&
           (self->phases == Py_None || PyObject_TypeCheck(self->phases, &ClockType));
}

/* Both notify the device's clock, a subclass if the device is not the current one; -1 with an error set. */

static int gpu_request(Pass *self) {
    int failed;
    PyObject *answer, *gpu = self->gpu;
    if (gpu == NULL || gpu == Py_None)
        return 0;
    Py_INCREF(gpu);
    if (Py_IS_TYPE(gpu, &DeviceType)) {
        failed = device_request((Device *)gpu);
    } else {
        answer = PyObject_CallMethodNoArgs(gpu, s_request);
        failed = answer == NULL ? -1 : 0;
        Py_XDECREF(answer);
    }
    Py_DECREF(gpu);
    return failed;
}

static int gpu_deliver(Pass *self) {
    int failed;
    PyObject *answer, *gpu = self->gpu;
    if (gpu == NULL || gpu == Py_None)
        return 0;
    Py_INCREF(gpu);
    if (Py_IS_TYPE(gpu, &DeviceType)) {
        failed = device_deliver((Device *)gpu, self->loader, self->number, self->batch, self->wait_since_ns);
    } else {
        answer = PyObject_CallMethod(gpu, "deliver", "LLLL", (long long)self->loader, (long long)self->number,
                                     (long long)self->batch, (long long)self->wait_since_ns);
        failed = answer == NULL ? -1 : 0;
        Py_XDECREF(answer);
    }
    Py_DECREF(gpu);
    return failed;
}

static PyObject *pass_enter(Pass *self, PyObject *iterator) {
    int64_t now = MONOTONIC(), number, *slot;
    PyObject *value, *numbers;
    if (!is_hot(self)) {
        if ((value = PyLong_FromLongLong(now)) == NULL)
            return NULL;
        PyObject *answer = PyObject_CallMethodObjArgs((PyObject *)self, s_request, iterator, value, NULL);
        Py_DECREF(value);
        if (answer == NULL)
            return NULL;
        Py_DECREF(answer);
        Py_RETURN_FALSE;
    }
    numbers = Py_NewRef(self->numbers);
    value = PyIter_Next(numbers);
    Py_DECREF(numbers);
    if (number_and_release(value, &number) < 0 || number < 1 || !is_hot(self)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "records are numbered from 1, by what runs no code of Python");
        return NULL;
    }
    slot = (int64_t *)(self->ring + HEADER_BYTES) + (number - 1) % CAPACITY * SLOT_FIELDS;
    slot[0] = number;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    slot[STEP_LOADER] = self->loader;
    slot[STEP_EPOCH] = self->number;
    slot[STEP_BATCH] = self->batch;
    slot[STEP_REQUEST_NS] = self->wait_since_ns;
    slot[STEP_WAIT_NS] = self->wait_ns;
    slot[STEP_WAIT_CPU_NS] = self->wait_cpu_ns;
    slot[STEP_READY] = self->ready;
    slot[STEP_CACHED] = self->cached;
    slot[STEP_AWAITED_WORKER] = self->awaited;
    slot[STEP_STEP_NS] = now - self->delivered_ns;
    if (self->phases == Py_None) {
        slot[1] = SHORT_STEP;
        slot[STEP_STEP] = self->step_ahead + self->batch;
        __atomic_store_n(slot + STEP_STEP_NS + 1, number, __ATOMIC_RELEASE);
    } else {
        Clock *clock = (Clock *)self->phases;
        Taken taken;
        clock_take(clock, &taken, now);
        slot[1] = STEP;
        slot[STEP_STEP] = clock->has_optimizer ? clock->steps_finished : self->step_ahead + self->batch;
        slot[STEP_H2D_NS] = taken.h2d;
        slot[STEP_FORWARD_NS] = taken.forward;
        slot[STEP_BACKWARD_NS] = taken.backward;
        slot[STEP_OPTIMIZER_NS] = taken.optimizer;
        slot[STEP_NESTED_NS] = 0;
        slot[STEP_OFF_MAIN_THREAD] = 0;
        slot[STEP_OPTIMIZER_STEPS] = taken.optimizer_steps;
        slot[STEP_COLLECTIVE_NS] = taken.collective;
        __atomic_store_n(slot + SLOT_FIELDS - 1, number, __ATOMIC_RELEASE);
    }
    show(self->ring, CURSOR_WORD, number);
    self->wait_since_ns = now;
    self->delivered_ns = 0; /* first, because later lines may fail and the step is already recorded */
    if (gpu_request(self) < 0)
        return NULL;
    if ((self->free == Py_None ? ask_reader(self, iterator) : look(self, iterator)) < 0)
        return NULL;
    if (self->ring != NULL) { /* NULL if a signal handler or another thread published something meanwhile */
        show(self->ring, BATCH_WORD, self->batch + 1);
        show(self->ring, AWAITED_WORD, self->awaited);
        show(self->ring, self->awaited != ENDING ? WAIT_WORD : TEARDOWN_WORD, now);
    }
    if (self->armed || !self->ready)
        self->cpu_ns = THREAD_CPU();
    Py_RETURN_TRUE;
}

static PyObject *pass_leave(Pass *self, PyObject *unused) {
    int64_t arrived, cpu = UNKNOWN;
    if (self->thread == 0 || self->ring == NULL)
        return PyObject_CallMethodNoArgs((PyObject *)self, s_deliver);
    if (self->cpu_ns) {
        cpu = THREAD_CPU() - self->cpu_ns;
        self->cpu_ns = 0;
    }
    arrived = MONOTONIC();
    show(self->ring, STEP_WORD, arrived);
    self->delivered_ns = arrived;
    self->wait_ns = arrived - self->wait_since_ns;
    self->wait_cpu_ns = cpu;
    self->armed = self->wait_ns > CPU_CLOCK_ABOVE_NS;
    self->batch++;
    if (gpu_deliver(self) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static int pass_traverse(Pass *self, visitproc visit, void *arg) {
    Py_VISIT(self->view.obj);
    Py_VISIT(self->recorder);
    Py_VISIT(self->phases);
    Py_VISIT(self->numbers);
    Py_VISIT(self->read);
    Py_VISIT(self->free);
    Py_VISIT(self->gpu);
    return 0;
}

static int pass_clear(Pass *self) {
    memory_drop(&self->view, &self->ring);
    Py_CLEAR(self->recorder);
    Py_CLEAR(self->phases);
    Py_CLEAR(self->numbers);
    Py_CLEAR(self->read);
    Py_CLEAR(self->free);
    Py_CLEAR(self->gpu);
    return 0;
}

static void pass_dealloc(Pass *self) {
    PyObject_GC_UnTrack(self);
    pass_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int pass_init(Pass *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"recorder", "phases", "numbers", "read", "loader", "number", NULL};
    PyObject *recorder, *phases, *numbers, *read;
    long long loader, number;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOLL", names, &recorder, &phases, &numbers, &read, &loader, &number))
        return -1;
    if (!PyIter_Check(numbers)) {
        PyErr_SetString(PyExc_TypeError, "numbers is no iterator");
        return -1;
    }
    pass_clear(self);
    self->recorder = Py_NewRef(recorder);
    self->phases = Py_NewRef(phases);
    self->numbers = Py_NewRef(numbers);
    self->read = Py_NewRef(read);
    self->free = Py_NewRef(Py_None);
    self->gpu = Py_NewRef(Py_None);
    self->loader = loader;
    self->number = number;
    self->batch = -1;
    self->wait_cpu_ns = self->ready = self->cached = self->awaited = UNKNOWN;
    self->armed = 1;
    return 0;
}

static PyObject *pass_get_memory(Pass *self, void *unused) { return memory_get(&self->view); }
static int pass_set_memory(Pass *self, PyObject *value, void *unused) { return memory_set(&self->view, &self->ring, value); }

static PyMemberDef pass_members[] = {
    OBJECT(Pass, recorder),     OBJECT(Pass, gpu),          OBJECT(Pass, read),         OBJECT(Pass, free),          OBJECT(Pass, phases),
    INTEGER(Pass, loader),      INTEGER(Pass, number),      INTEGER(Pass, batch),        INTEGER(Pass, step_ahead),
    INTEGER(Pass, wait_ns),     INTEGER(Pass, cpu_ns),      INTEGER(Pass, wait_since_ns), INTEGER(Pass, wait_cpu_ns),
    INTEGER(Pass, ready),       INTEGER(Pass, cached),      INTEGER(Pass, awaited),      INTEGER(Pass, delivered_ns),
    INTEGER(Pass, limit),       FLAG(Pass, armed),          {"thread", T_ULONG, offsetof(Pass, thread), 0, NULL},
    {NULL},
};

static PyGetSetDef pass_getset[] = {
    {"memory", (getter)pass_get_memory, (setter)pass_set_memory, NULL, NULL},
    {NULL},
};

static PyMethodDef pass_methods[] = {
    METHOD("enter", pass_enter, METH_O),
    METHOD("leave", pass_leave, METH_NOARGS),
    {NULL},
};

static PyTypeObject PassType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "loaderwatch.agent.hot._hot.Pass",
    .tp_basicsize = sizeof(Pass),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)pass_init,
    .tp_dealloc = (destructor)pass_dealloc,
    .tp_traverse = (traverseproc)pass_traverse,
    .tp_clear = (inquiry)pass_clear,
    .tp_members = pass_members,
    .tp_getset = pass_getset,
    .tp_methods = pass_methods,
};

/* ---- TimedNext: __next__ of a watched iterator */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *call, *caught, *failed;
} Next;

static _Thread_local long nexts_inside; /* calls of __next__ on this thread's stack */

/* Passes the epoch and the set error to `seam`. -1 with an error set: the seam's, or the old if `again`. */
static int hand_over(PyObject *seam, PyObject *epoch, int again) {
    PyObject *type, *error, *trace, *answer;
    if (seam == NULL) /* cleared by garbage collection */
        return -1;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL)
        PyException_SetTraceback(error, trace);
    Py_XDECREF(trace);
    Py_INCREF(seam);
    answer = PyObject_CallFunctionObjArgs(seam, epoch, error, NULL);
    Py_DECREF(seam);
    if (answer == NULL || !again) {
        Py_XDECREF(type);
        Py_XDECREF(error);
    } else {
        PyErr_Restore(type, error, PyException_GetTraceback(error));
    }
    Py_XDECREF(answer);
    return answer == NULL || again ? -1 : 0;
}

static PyObject *next_timed(Next *self, PyObject *epoch, PyObject *iterator) {
    PyObject *answer, *done;
    int hot = 0;
    if (!PyObject_TypeCheck(epoch, &PassType)) {
        PyErr_SetString(PyExc_TypeError, "an epoch is a Pass");
        done = NULL;
    } else {
        done = pass_enter((Pass *)epoch, iterator);
    }
    if (done == NULL) {
        if (hand_over(self->caught, epoch, 0) < 0)
            return NULL;
    } else {
        hot = done == Py_True;
        Py_DECREF(done);
    }
    if ((answer = call(self->call, iterator)) == NULL) {
        hand_over(self->failed, epoch, 1);
        return NULL;
    }
    done = hot ? pass_leave((Pass *)epoch, NULL) : PyObject_CallMethodNoArgs(epoch, s_deliver);
    if (done == NULL && hand_over(self->caught, epoch, 0) < 0)
        Py_CLEAR(answer);
    Py_XDECREF(done);
    return answer;
}

static PyObject *next_call(Next *self, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *epoch, *answer;
    if (PyVectorcall_NARGS(count) != 1 || names != NULL) {
        PyErr_SetString(PyExc_TypeError, "__next__ takes no arguments");
        return NULL;
    }
    if ((epoch = PyObject_GetAttr(args[0], s_loaderwatch)) == NULL)
        return NULL;
    nexts_inside++;
    answer = next_timed(self, epoch, args[0]);
    nexts_inside--;
    Py_DECREF(epoch);
    return answer;
}

static PyObject *next_of(PyObject *self, PyObject *instance, PyObject *type) {
    return instance == NULL ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static int next_init(Next *self, PyObject *args, PyObject *kwargs) {
    PyObject *call, *caught, *failed;
    if (!PyArg_ParseTuple(args, "OOO", &call, &caught, &failed))
        return -1;
    Py_XSETREF(self->call, Py_NewRef(call));
    Py_XSETREF(self->caught, Py_NewRef(caught));
    Py_XSETREF(self->failed, Py_NewRef(failed));
    self->vectorcall = (vectorcallfunc)next_call;
    return 0;
}

static int next_traverse(Next *self, visitproc visit, void *arg) {
    Py_VISIT(self->call);
    Py_VISIT(self->caught);
    Py_VISIT(self->failed);
    return 0;
}

static int next_clear(Next *self) {
    Py_CLEAR(self->call);
    Py_CLEAR(self->caught);
    Py_CLEAR(self->failed);
    return 0;
}

static void next_dealloc(Next *self) {
    PyObject_GC_UnTrack(self);
    next_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject NextType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "loaderwatch.agent.hot._hot.TimedNext",
    .tp_basicsize = sizeof(Next),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(Next, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = next_of,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)next_init,
    .tp_dealloc = (destructor)next_dealloc,
    .tp_traverse = (traverseproc)next_traverse,
    .tp_clear = (inquiry)next_clear,
};

static PyObject *nexts_on_the_stack(PyObject *module, PyObject *unused) { return PyLong_FromLong(nexts_inside); }

/* ---- the last line of a script: of all exit handlers, only those of on_exit receive the exit code */

#ifdef __GLIBC__
static char last_line[1024];

static void say_last_line(int status, void *unused) {
    if (status == 0 && write(STDERR_FILENO, last_line, strlen(last_line)) < 0)
        return; /* nobody reads stderr */
}

static PyObject *say_after_success(PyObject *module, PyObject *text) {
    if (!PyBytes_Check(text)) return PyErr_SetString(PyExc_TypeError, "the text must be bytes"), NULL;
    strncpy(last_line, PyBytes_AS_STRING(text), sizeof last_line - 1);
    if (on_exit(say_last_line, NULL)) return PyErr_NoMemory();
    Py_RETURN_NONE;
}
#endif

/* ---- stacks of a running process. A signal handler does not hold the interpreter's lock, so another thread
   may leave a frame while the handler reads it. faulthandler then reads unmapped memory, which would end the
   process. (Seen after 1 to 300 dumps beside a thread that uses a socket; Python 3.10 to 3.13.) Here only the
   dump ends and restarts. */

#define DUMPS 20 /* most attempts; each one fails with a probability of a few percent */

#if PY_VERSION_HEX < 0x030D0000
extern const char *_Py_DumpTracebackThreads(int fd, PyInterpreterState *interpreter, PyThreadState *current) __attribute__((weak));
#define DUMP_THREADS _Py_DumpTracebackThreads /* exported by Python 3.11 and 3.12 */
#else
#define DUMP_THREADS ((const char *(*)(int, PyInterpreterState *, PyThreadState *))NULL)
#endif

static volatile pid_t dumping; /* the thread that writes stacks, or 0 */
static sigjmp_buf torn_off;
static struct sigaction of_segv, of_bus;

/* Our file for faulthandler. The script may close the descriptor and get its number for a file of its own. */
typedef struct {
    int fd;
    dev_t device;
    ino_t inode;
    char path[PATH_MAX];
    struct sigaction of_faulthandler;
} Kept;

static Kept stacks, last_stack;

static int is_kept(const Kept *file, int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 && found.st_dev == file->device && found.st_ino == file->inode;
}

/* Opens our file again after the script has closed its descriptor; -1 if that fails. */
static int open_again(const Kept *file) {
    int fd = open(file->path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || is_kept(file, fd))
        return fd;
    close(fd);
    return -1;
}

/* Puts a handler in front of faulthandler's handler of this signal; returns whether that worked. */
static int keep(Kept *file, int number, int fd, void (*handler)(int), int without_flags) {
    struct stat found;
    struct sigaction action;
    if (fstat(fd, &found) < 0 || sigaction(number, NULL, &action) < 0)
        return 0;
    file->fd = fd;
    file->device = found.st_dev;
    file->inode = found.st_ino;
    if (action.sa_handler != handler)
        file->of_faulthandler = action;
    action.sa_handler = handler;
    action.sa_flags &= ~without_flags;
    return sigaction(number, &action, NULL) == 0;
}

static pid_t this_thread(void) { return (pid_t)syscall(SYS_gettid); }

static void torn(int number) {
    if (dumping == this_thread())
        siglongjmp(torn_off, 1);
    /* The error is not ours. It happens again at once, and the original handler gets it. */
    sigaction(number, number == SIGBUS ? &of_bus : &of_segv, NULL);
}

/* `torn` may be set already: in a process that was forked while another thread wrote. */
static void take_over(int number, struct sigaction *before) {
    struct sigaction guarded = {.sa_handler = torn}, was;
    sigemptyset(&guarded.sa_mask);
    if (sigaction(number, &guarded, &was) == 0 && was.sa_handler != torn)
        *before = was;
}

static void write_stacks(int number) {
    int error = errno;
    pid_t nobody = 0;
    volatile int dumps = 0;
    off_t end;
    int fd;
    if (!__atomic_compare_exchange_n(&dumping, &nobody, this_thread(), 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    fd = is_kept(&stacks, stacks.fd) ? stacks.fd : DUMP_THREADS != NULL ? open_again(&stacks) : -1;
    if (fd >= 0) {
        take_over(SIGSEGV, &of_segv);
        take_over(SIGBUS, &of_bus);
        end = lseek(fd, 0, SEEK_END);
        if (sigsetjmp(torn_off, 1) != 0 && DUMP_THREADS != NULL && dumps < DUMPS && ftruncate(fd, end) < 0)
            dumps = DUMPS; /* keep the stacks written so far */
        if (dumps++ < DUMPS) {
            if (DUMP_THREADS != NULL)
                DUMP_THREADS(fd, NULL, NULL);
            else if (dumps == 1)
                stacks.of_faulthandler.sa_handler(number); /* responds only until a dump was interrupted */
        }
        sigaction(SIGSEGV, &of_segv, NULL);
        sigaction(SIGBUS, &of_bus, NULL);
        if (fd != stacks.fd)
            close(fd);
    }
    __atomic_store_n(&dumping, 0, __ATOMIC_RELEASE);
    errno = error;
}

static PyObject *guard_stacks(PyObject *module, PyObject *args) {
    int number, fd;
    const char *path;
    if (!PyArg_ParseTuple(args, "iiy", &number, &fd, &path))
        return NULL;
    strncpy(stacks.path, path, sizeof stacks.path - 1);
    dumping = 0; /* it may be set in a process that was forked while another thread wrote */
    /* Not SA_ONSTACK: the alternate stack has no room for a second signal's registers. */
    if (!keep(&stacks, number, fd, write_stacks, SA_ONSTACK))
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static void write_last_stack(int number) {
    if (is_kept(&last_stack, last_stack.fd))
        last_stack.of_faulthandler.sa_handler(number);
    signal(number, SIG_DFL);
    raise(number);
}

static PyObject *guard_last_stack(PyObject *module, PyObject *args) {
    int number, fd;
    if (!PyArg_ParseTuple(args, "ii", &number, &fd))
        return NULL;
    if (!keep(&last_stack, number, fd, write_last_stack, 0))
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    METHOD("guard_stacks", guard_stacks, METH_VARARGS),
    METHOD("guard_last_stack", guard_last_stack, METH_VARARGS),
#ifdef __GLIBC__
    METHOD("say_after_success", say_after_success, METH_O),
#endif
    METHOD("nexts_on_the_stack", nexts_on_the_stack, METH_NOARGS),
    {NULL},
};

/* ---- SampleClock: the fetches of one process, and the samples of each */

#define MAX_INDEX ((int64_t)1 << 62)

typedef struct { /* fields of every sample are adjacent */
    PyObject_HEAD
    char *ring; /* NULL while no fetch runs */
    int64_t samples, count, slow_index, slow_ns, sample_since_ns;
    int64_t worker, loader, capacity, ordinal, collate_since_ns, began_ns, began_cpu_ns, ended_ns;
    char armed;
    PyObject *writer, *numbers, *weigh;
    Py_buffer view;
} Samples;

typedef struct {
    PyObject_HEAD
    PyObject *indices; /* an iterator */
    Samples *clock;
    int64_t since, slow_ns, named, count;
    char counted, reading;
} Walk;

typedef struct {
    PyListObject list;
    Samples *clock;
    int64_t first, done; /* samples before this fetch; samples read before it failed */
    char counted;
} Indices;

static PyTypeObject SamplesType, WalkType, IndicesType;

static int64_t name_of(PyObject *index) {
    int overflow;
    int64_t number;
    if (!PyLong_CheckExact(index))
        return UNKNOWN;
    number = PyLong_AsLongLongAndOverflow(index, &overflow);
    return overflow || number >= MAX_INDEX || number <= -MAX_INDEX ? UNKNOWN : number;
}

/* Holds the ring's current memory: a forked child's writer has another one. */
static int samples_hold(Samples *self) {
    PyObject *memory;
    int failed = 0;
    if (self->writer == NULL) {
        PyErr_SetString(PyExc_AttributeError, "the clock has no ring");
        return -1;
    }
    if ((memory = PyObject_GetAttr(self->writer, s_memory)) == NULL)
        return -1;
    if (self->ring == NULL || self->view.obj != memory)
        failed = memory_hold(&self->view, &self->ring, memory, HEADER_BYTES + (Py_ssize_t)self->capacity * SLOT_FIELDS * 8);
    Py_DECREF(memory);
    return failed;
}

static void show_sample(char *ring, int64_t index, int64_t since) {
    show(ring, SAMPLE_WORD + 1, 0); /* being written */
    show(ring, SAMPLE_WORD, index);
    show(ring, SAMPLE_WORD + 1, since);
}

static PyObject *walk_next(Walk *self) {
    int64_t now = MONOTONIC(), took = now - self->since;
    PyObject *index, *indices = self->indices;
    Samples *clock = self->clock;
    if (indices == NULL || clock == NULL) /* cleared by garbage collection */
        return NULL;
    if (self->reading) {
        if (took > self->slow_ns) {
            clock->slow_ns = self->slow_ns = took;
            clock->slow_index = self->named;
        }
        clock->count = ++self->count;
        self->reading = 0;
    }
    Py_INCREF(indices);
    index = PyIter_Next(indices);
    Py_DECREF(indices);
    if (index == NULL || (clock = self->clock) == NULL)
        return index;
    self->reading = 1;
    self->named = self->counted ? clock->samples + self->count : name_of(index);
    clock->sample_since_ns = self->since = now;
    if (clock->ring != NULL) /* NULL after the end of the fetch */
        show_sample(clock->ring, self->named, now);
    return index;
}

static int walk_traverse(Walk *self, visitproc visit, void *arg) {
    Py_VISIT(self->indices);
    Py_VISIT(self->clock);
    return 0;
}

static int walk_clear(Walk *self) {
    Py_CLEAR(self->indices);
    Py_CLEAR(self->clock);
    return 0;
}

static void walk_dealloc(Walk *self) {
    PyObject_GC_UnTrack(self);
    walk_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject WalkType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "loaderwatch.agent.hot._hot.Walk",
    .tp_basicsize = sizeof(Walk),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = (destructor)walk_dealloc,
    .tp_traverse = (traverseproc)walk_traverse,
    .tp_clear = (inquiry)walk_clear,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = (iternextfunc)walk_next,
};

/* Makes a Walk over `indices`, an iterator. */
static PyObject *walk_of(Samples *clock, PyObject *indices, int counted) {
    Walk *walk = (Walk *)PyType_GenericAlloc(&WalkType, 0);
    if (walk == NULL)
        return NULL;
    walk->indices = Py_NewRef(indices);
    walk->clock = (Samples *)Py_NewRef((PyObject *)clock);
    walk->counted = (char)counted;
    walk->slow_ns = UNKNOWN;
    return (PyObject *)walk;
}

static PyObject *samples_walk(Samples *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyIter_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "walk takes an iterator of indices and whether samples are counted");
        return NULL;
    }
    return walk_of(self, args[0], args[1] == Py_True);
}

static PyObject *indices_iter(Indices *self) {
    PyObject *answer, *indices = PyList_Type.tp_iter((PyObject *)self);
    Samples *clock = self->clock;
    if (indices == NULL || clock == NULL) /* a copy, or cleared by garbage collection */
        return indices;
    answer = walk_of(clock, indices, self->counted);
    Py_DECREF(indices);
    return answer;
}

static int indices_traverse(Indices *self, visitproc visit, void *arg) {
    Py_VISIT(self->clock);
    return PyList_Type.tp_traverse((PyObject *)self, visit, arg);
}

static int indices_clear(Indices *self) {
    Py_CLEAR(self->clock);
    return PyList_Type.tp_clear((PyObject *)self);
}

static void indices_dealloc(Indices *self) {
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->clock);
    PyList_Type.tp_dealloc((PyObject *)self);
}

/* Copies and pickles are plain lists. */
static PyObject *indices_reduce(PyObject *self, PyObject *unused) {
    PyObject *items = PyList_GetSlice(self, 0, PyList_GET_SIZE(self));
    return items == NULL ? NULL : Py_BuildValue("(O(N))", (PyObject *)&PyList_Type, items);
}

static PyMethodDef indices_methods[] = {
    METHOD("__reduce__", indices_reduce, METH_NOARGS),
    {NULL},
};

static PyMemberDef indices_members[] = {
    INTEGER(Indices, first),
    INTEGER(Indices, done),
    {NULL},
};

static PyTypeObject IndicesType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "loaderwatch.agent.hot._hot.TimedIndices",
    .tp_basicsize = sizeof(Indices),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = (destructor)indices_dealloc,
    .tp_traverse = (traverseproc)indices_traverse,
    .tp_clear = (inquiry)indices_clear,
    .tp_iter = (getiterfunc)indices_iter,
    .tp_methods = indices_methods,
    .tp_members = indices_members,
};

static PyObject *timed_indices(Samples *clock, PyObject *indices, int counted) {
    Indices *timed = (Indices *)IndicesType.tp_alloc(&IndicesType, 0);
    if (timed == NULL)
        return NULL;
    if (PyList_SetSlice((PyObject *)timed, 0, 0, indices) < 0) {
        Py_DECREF(timed);
        return NULL;
    }
    timed->clock = (Samples *)Py_NewRef((PyObject *)clock);
    timed->counted = (char)counted;
    timed->first = clock->samples;
    timed->done = UNKNOWN;
    return (PyObject *)timed;
}

static PyObject *begin_fetch(Samples *self, long reads, PyObject *indices) {
    int64_t now = MONOTONIC(), index = UNKNOWN;
    PyObject *handed = NULL;
    self->began_ns = now;
    self->began_cpu_ns = 0;
    self->slow_index = self->slow_ns = self->collate_since_ns = UNKNOWN;
    self->count = self->sample_since_ns = 0;
    if (samples_hold(self) < 0)
        return NULL;
    if (reads == ONE || reads == ONE_COUNTED) {
        self->count = 1;
        self->slow_index = index = reads == ONE ? name_of(indices) : self->samples;
        self->sample_since_ns = now;
    } else if (PyList_CheckExact(indices)) {
        if (reads == AT_ONCE)
            self->count = PyList_GET_SIZE(indices);
        else if ((reads == EACH || reads == EACH_COUNTED) &&
                 (handed = timed_indices(self, indices, reads == EACH_COUNTED)) == NULL)
            return NULL;
    }
    if (self->ring != NULL) { /* NULL if garbage collection ran a finalizer that ended the fetch */
        if (index != UNKNOWN)
            show_sample(self->ring, index, now);
        if (self->worker >= 0)
            show(self->ring, FETCH_WORD, now);
    }
    /* This clock is a system call, and a short fetch on the training thread needs no explanation. */
    if (self->worker >= 0 || self->armed)
        self->began_cpu_ns = THREAD_CPU();
    return handed != NULL ? handed : Py_NewRef(indices);
}

static void begin_collate(Samples *self) {
    int64_t now = MONOTONIC();
    if (self->sample_since_ns && self->slow_ns == UNKNOWN) /* one sample without a list */
        self->slow_ns = now - self->sample_since_ns;
    self->collate_since_ns = now;
    if (self->ring == NULL)
        return;
    if (samples_hold(self) < 0) {
        PyErr_Clear(); /* the end of the fetch reports the same error */
        return;
    }
    if (self->worker >= 0) {
        show(self->ring, SAMPLES_WORD, self->samples + self->count);
        show(self->ring, COLLATE_WORD, now);
    }
    show_sample(self->ring, UNKNOWN, UNKNOWN);
}

/* Ends a fetch. The caller holds the ring's memory. */
static void rest(Samples *self) {
    int64_t now = MONOTONIC();
    self->samples += self->count;
    self->count = 0;
    self->ended_ns = now;
    show_sample(self->ring, UNKNOWN, UNKNOWN);
    if (self->worker >= 0) {
        show(self->ring, BATCHES_WORD, self->ordinal);
        show(self->ring, SAMPLES_WORD, self->samples);
        show(self->ring, IDLE_WORD, now);
        show(self->ring, FETCH_WORD, UNKNOWN);
        show(self->ring, COLLATE_WORD, UNKNOWN);
    }
    memory_drop(&self->view, &self->ring);
}

static int end_fetch(Samples *self, PyObject *batch) {
    int64_t now = MONOTONIC(), cpu = self->began_cpu_ns ? THREAD_CPU() - self->began_cpu_ns : UNKNOWN;
    int64_t number, bytes, *slot;
    PyObject *value, *numbers;
    self->armed = now - self->began_ns > CPU_CLOCK_ABOVE_NS;
    if (number_and_release(call(self->weigh, batch), &bytes) < 0)
        return -1;
    numbers = Py_XNewRef(self->numbers);
    value = numbers != NULL ? PyIter_Next(numbers) : NULL;
    Py_XDECREF(numbers);
    if (number_and_release(value, &number) < 0 || number < 1 || samples_hold(self) < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "records are numbered from 1");
        return -1;
    }
    slot = (int64_t *)(self->ring + HEADER_BYTES) + (number - 1) % self->capacity * SLOT_FIELDS;
    slot[0] = number;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    slot[1] = FETCH;
    slot[FETCH_LOADER] = self->loader;
    slot[FETCH_WORKER] = self->worker;
    slot[FETCH_ORDINAL] = self->ordinal;
    slot[FETCH_REQUEST_NS] = self->began_ns;
    slot[FETCH_FETCH_NS] = now - self->began_ns;
    slot[FETCH_COLLATE_NS] = self->collate_since_ns != UNKNOWN ? now - self->collate_since_ns : UNKNOWN;
    slot[FETCH_CPU_NS] = cpu;
    slot[FETCH_IDLE_NS] = self->began_ns - self->ended_ns;
    slot[FETCH_SAMPLES] = self->count ? self->count : UNKNOWN;
    slot[FETCH_SLOW_INDEX] = self->slow_index;
    slot[FETCH_SLOW_NS] = self->slow_ns;
    slot[FETCH_BYTES] = bytes;
    memset(slot + FETCH_BYTES + 1, 0, (SLOT_FIELDS - FETCH_BYTES - 2) * sizeof *slot);
    __atomic_store_n(slot + SLOT_FIELDS - 1, number, __ATOMIC_RELEASE);
    show(self->ring, CURSOR_WORD, number);
    self->ordinal++;
    rest(self);
    return 0;
}

static int end_without(Samples *self) {
    if (samples_hold(self) < 0)
        return -1;
    rest(self);
    return 0;
}

static PyObject *samples_begin(Samples *self, PyObject *const *args, Py_ssize_t count) {
    long reads;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "begin takes how the fetcher reads and the indices");
        return NULL;
    }
    reads = PyLong_AsLong(args[0]);
    return reads == -1 && PyErr_Occurred() ? NULL : begin_fetch(self, reads, args[1]);
}

static PyObject *samples_collate(Samples *self, PyObject *unused) {
    begin_collate(self);
    Py_RETURN_NONE;
}

static PyObject *samples_end(Samples *self, PyObject *batch) {
    return end_fetch(self, batch) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *samples_idle(Samples *self, PyObject *unused) {
    return end_without(self) < 0 ? NULL : Py_NewRef(Py_None);
}

static int samples_traverse(Samples *self, visitproc visit, void *arg) {
    Py_VISIT(self->view.obj);
    Py_VISIT(self->writer);
    Py_VISIT(self->numbers);
    Py_VISIT(self->weigh);
    return 0;
}

static int samples_clear(Samples *self) {
    memory_drop(&self->view, &self->ring);
    Py_CLEAR(self->writer);
    Py_CLEAR(self->numbers);
    Py_CLEAR(self->weigh);
    return 0;
}

static void samples_dealloc(Samples *self) {
    PyObject_GC_UnTrack(self);
    samples_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static int samples_init(Samples *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"ring", "loader", "worker", "weigh", NULL};
    PyObject *writer, *weigh, *numbers, *capacity;
    long long loader, worker;
    int64_t slots;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OLLO", names, &writer, &loader, &worker, &weigh))
        return -1;
    samples_clear(self);
    if ((numbers = PyObject_GetAttrString(writer, "numbers")) == NULL)
        return -1;
    capacity = PyIter_Check(numbers) ? PyObject_GetAttrString(writer, "capacity") : NULL;
    if (number_and_release(capacity, &slots) < 0 || slots < 1 || slots > CAPACITY) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "that is no ring to write");
        Py_DECREF(numbers);
        return -1;
    }
    self->numbers = numbers;
    self->writer = Py_NewRef(writer);
    self->weigh = Py_NewRef(weigh);
    self->capacity = slots;
    self->loader = loader;
    self->worker = worker;
    self->samples = self->count = self->sample_since_ns = self->ordinal = 0;
    self->slow_index = self->slow_ns = self->collate_since_ns = UNKNOWN;
    self->armed = 1;
    self->began_ns = self->ended_ns = MONOTONIC();
    return 0;
}

static PyMemberDef samples_members[] = {
    INTEGER(Samples, samples), INTEGER(Samples, count),           INTEGER(Samples, slow_index), INTEGER(Samples, loader),
    INTEGER(Samples, slow_ns), INTEGER(Samples, sample_since_ns), INTEGER(Samples, ordinal),    INTEGER(Samples, worker),
    {NULL},
};

static PyMethodDef samples_methods[] = {
    METHOD("begin", samples_begin, METH_FASTCALL),
    METHOD("collate", samples_collate, METH_NOARGS),
    METHOD("end", samples_end, METH_O),
    METHOD("idle", samples_idle, METH_NOARGS),
    METHOD("walk", samples_walk, METH_FASTCALL),
    {NULL},
};

static PyTypeObject SamplesType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "loaderwatch.agent.hot._hot.SampleClock",
    .tp_basicsize = sizeof(Samples),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)samples_init,
    .tp_dealloc = (destructor)samples_dealloc,
    .tp_traverse = (traverseproc)samples_traverse,
    .tp_clear = (inquiry)samples_clear,
    .tp_members = samples_members,
    .tp_methods = samples_methods,
};

/* ---- TimedFetch: fetch of a watched fetcher */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *call, *guard, *caught;
} Fetch;

static int is_tripped(Fetch *self) {
    PyObject *answer, *guard = Py_XNewRef(self->guard);
    int tripped;
    if (guard == NULL)
        return 1;
    answer = PyObject_GetAttr(guard, s_tripped);
    Py_DECREF(guard);
    if (answer == NULL)
        return -1;
    tripped = answer == Py_True;
    Py_DECREF(answer);
    return tripped;
}

/* Begins a fetch; returns the argument that replaces the fetcher's indices. */
static PyObject *begin_as_told(Samples *clock, PyObject *fetcher, PyObject *indices) {
    int64_t reads;
    if (number_and_release(PyObject_GetAttr(fetcher, s_reads), &reads) < 0)
        return NULL;
    return begin_fetch(clock, (long)reads, indices);
}

static PyObject *fetch_timed(Fetch *self, Samples *clock, PyObject *fetcher, PyObject *indices) {
    PyObject *answer, *type, *error, *trace, *function, *handed = begin_as_told(clock, fetcher, indices);
    if (handed == NULL) {
        if (hand_over(self->caught, (PyObject *)clock, 0) < 0)
            return NULL;
        handed = Py_NewRef(indices);
    }
    function = Py_XNewRef(self->call);
    if (function == NULL) {
        PyErr_SetString(PyExc_AttributeError, "a field of the hot path is not set");
        answer = NULL;
    } else {
        PyObject *const both[] = {fetcher, handed};
        answer = PyObject_Vectorcall(function, both, 2, NULL);
    }
    Py_XDECREF(function);
    if (answer == NULL && Py_IS_TYPE(handed, &IndicesType))
        ((Indices *)handed)->done = clock->count;
    Py_DECREF(handed);
    if (answer != NULL) {
        if (end_fetch(clock, answer) < 0 && hand_over(self->caught, (PyObject *)clock, 0) < 0)
            Py_CLEAR(answer);
        return answer;
    }
    PyErr_Fetch(&type, &error, &trace);
    if (end_without(clock) < 0 && hand_over(self->caught, (PyObject *)clock, 0) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(trace);
    } else {
        PyErr_Restore(type, error, trace);
    }
    return NULL;
}

static PyObject *fetch_call(Fetch *self, PyObject *const *args, size_t count, PyObject *names) {
    PyObject *clock, *answer, *function;
    int tripped = is_tripped(self);
    if (tripped < 0)
        return NULL;
    if (!tripped && PyVectorcall_NARGS(count) == 2 && names == NULL) {
        if ((clock = PyObject_GetAttr(args[0], s_loaderwatch)) == NULL)
            return NULL;
        if (PyObject_TypeCheck(clock, &SamplesType)) {
            answer = fetch_timed(self, (Samples *)clock, args[0], args[1]);
            Py_DECREF(clock);
            return answer;
        }
        Py_DECREF(clock);
    }
    if ((function = Py_XNewRef(self->call)) == NULL) {
        PyErr_SetString(PyExc_AttributeError, "a field of the hot path is not set");
        return NULL;
    }
    answer = PyObject_Vectorcall(function, args, PyVectorcall_NARGS(count), names);
    Py_DECREF(function);
    return answer;
}

static int fetch_init(Fetch *self, PyObject *args, PyObject *kwargs) {
    PyObject *call, *guard, *caught;
    if (!PyArg_ParseTuple(args, "OOO", &call, &guard, &caught))
        return -1;
    Py_XSETREF(self->call, Py_NewRef(call));
    Py_XSETREF(self->guard, Py_NewRef(guard));
    Py_XSETREF(self->caught, Py_NewRef(caught));
    self->vectorcall = (vectorcallfunc)fetch_call;
    return 0;
}

static int fetch_traverse(Fetch *self, visitproc visit, void *arg) {
    Py_VISIT(self->call);
    Py_VISIT(self->guard);
    Py_VISIT(self->caught);
    return 0;
}

static int fetch_clear(Fetch *self) {
    Py_CLEAR(self->call);
    Py_CLEAR(self->guard);
    Py_CLEAR(self->caught);
    return 0;
}

static void fetch_dealloc(Fetch *self) {
    PyObject_GC_UnTrack(self);
    fetch_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject FetchType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "loaderwatch.agent.hot._hot.TimedFetch",
    .tp_basicsize = sizeof(Fetch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(Fetch, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = next_of,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)fetch_init,
    .tp_dealloc = (destructor)fetch_dealloc,
    .tp_traverse = (traverseproc)fetch_traverse,
    .tp_clear = (inquiry)fetch_clear,
};

/* ---- NotedCollate: collate_fn of a watched fetcher, which PyTorch reads right before it calls it */

static PyObject *noted_get(PyObject *self, PyObject *fetcher, PyObject *type) {
    PyObject *clock, *function, *fields;
    if (fetcher == NULL)
        return Py_NewRef(self);
    if ((fields = PyObject_GenericGetDict(fetcher, NULL)) == NULL)
        return NULL;
    clock = Py_XNewRef(PyDict_GetItemWithError(fields, s_loaderwatch)); /* borrowed */
    if (clock != NULL && PyObject_TypeCheck(clock, &SamplesType))
        begin_collate((Samples *)clock);
    Py_XDECREF(clock);
    function = PyErr_Occurred() ? NULL : Py_XNewRef(PyDict_GetItemWithError(fields, s_collate_fn));
    Py_DECREF(fields);
    if (function == NULL && !PyErr_Occurred())
        PyErr_SetObject(PyExc_AttributeError, s_collate_fn);
    return function;
}

static int noted_set(PyObject *self, PyObject *fetcher, PyObject *function) {
    PyObject *fields = PyObject_GenericGetDict(fetcher, NULL);
    int failed;
    if (fields == NULL)
        return -1;
    failed = function != NULL ? PyDict_SetItem(fields, s_collate_fn, function) : PyDict_DelItem(fields, s_collate_fn);
    Py_DECREF(fields);
    return failed;
}

static PyTypeObject NotedType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "loaderwatch.agent.hot._hot.NotedCollate",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_descr_get = noted_get,
    .tp_descr_set = noted_set,
    .tp_new = PyType_GenericNew,
};

/* ---- TimedCollections: an entry of gc.callbacks. Python prints and drops the errors of such a callback, and
   the callback's first bytecode runs the handler of a signal that came during the collection. So no bytecode
   runs here. A pending call reports a notable pause; an interrupt passes from there into the user's code. */

typedef struct {
    PyObject_HEAD
    PyObject *tell;
    int64_t began;
} Collections;

typedef struct {
    PyObject *tell;
    int64_t began, took;
    long long generation, collected;
} Pause;

#if PY_VERSION_HEX < 0x030D0000
#define Py_IsFinalizing _Py_IsFinalizing /* public since 3.13 */
#endif

static int pause_tell(void *queued) {
    Pause pause = *(Pause *)queued;
    PyObject *answer;
    PyMem_RawFree(queued);
    if (Py_IsFinalizing()) { /* at Python's exit modules may be gone, and nobody reads the record */
        Py_DECREF(pause.tell);
        return 0;
    }
    answer = PyObject_CallFunction(pause.tell, "LLLL", (long long)pause.began, (long long)pause.took, pause.generation, pause.collected);
    Py_DECREF(pause.tell);
    Py_XDECREF(answer);
    return answer == NULL ? -1 : 0;
}

static long long counted(PyObject *info, const char *name) {
    PyObject *value = PyDict_Check(info) ? PyDict_GetItemString(info, name) : NULL;
    return value != NULL && PyLong_CheckExact(value) ? PyLong_AsLongLong(value) : -1;
}

static PyObject *collections_call(Collections *self, PyObject *args, PyObject *kwargs) {
    PyObject *phase, *info;
    int64_t began = self->began, took;
    Pause *pause;
    if (!PyArg_ParseTuple(args, "UO", &phase, &info))
        return NULL;
    if (PyUnicode_CompareWithASCIIString(phase, "start") == 0) {
        self->began = MONOTONIC();
        Py_RETURN_NONE;
    }
    took = MONOTONIC() - began;
    self->began = 0;
    if (began && took >= NOTABLE_PAUSE_NS && self->tell != NULL && (pause = PyMem_RawMalloc(sizeof *pause)) != NULL) {
        *pause = (Pause){Py_NewRef(self->tell), began, took, counted(info, "generation"), counted(info, "collected")};
        if (Py_AddPendingCall(pause_tell, pause) < 0) { /* dozens wait: the main thread runs no Python */
            Py_DECREF(pause->tell);
            PyMem_RawFree(pause);
        }
    }
    Py_RETURN_NONE;
}

static int collections_init(Collections *self, PyObject *args, PyObject *kwargs) {
    PyObject *tell;
    if (!PyArg_ParseTuple(args, "O", &tell))
        return -1;
    Py_XSETREF(self->tell, Py_NewRef(tell));
    return 0;
}

static int collections_traverse(Collections *self, visitproc visit, void *arg) {
    Py_VISIT(self->tell);
    return 0;
}

static int collections_clear(Collections *self) {
    Py_XSETREF(self->tell, Py_NewRef(Py_None)); /* not NULL: calls may still come until dealloc */
    return 0;
}

static void collections_dealloc(Collections *self) {
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->tell);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyTypeObject CollectionsType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "loaderwatch.agent.hot._hot.TimedCollections",
    .tp_basicsize = sizeof(Collections),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_call = (ternaryfunc)collections_call,
    .tp_new = PyType_GenericNew,
    .tp_init = (initproc)collections_init,
    .tp_dealloc = (destructor)collections_dealloc,
    .tp_traverse = (traverseproc)collections_traverse,
    .tp_clear = (inquiry)collections_clear,
};

/* ---- the module */

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "loaderwatch.agent.hot._hot", NULL, -1, functions};

static int intern(PyObject **name, const char *text) { return (*name = PyUnicode_InternFromString(text)) == NULL ? -1 : 0; }

PyMODINIT_FUNC PyInit__hot(void) {
    PyObject *made;
    if (intern(&s_task_info, "_task_info") || intern(&s_tasks_outstanding, "_tasks_outstanding") ||
        intern(&s_rcvd_idx, "_rcvd_idx") || intern(&s_request, "request") || intern(&s_deliver, "deliver") ||
        intern(&s_is_cpu, "is_cpu") || intern(&s_moved, "moved") ||
        intern(&s_look_at_output, "look_at_output") || intern(&s_loaderwatch, "_loaderwatch") ||
        intern(&s_reads, "_loaderwatch_reads") || intern(&s_tripped, "tripped") || intern(&s_memory, "memory") ||
        intern(&s_collate_fn, "collate_fn") || intern(&s_record, "record") || intern(&s_query, "query") ||
        intern(&s_elapsed_time, "elapsed_time") || intern(&s_launches, "launches") ||
        intern(&s_call_impl, "_call_impl") ||
        intern(&s_compiled_call_impl, "_compiled_call_impl") || intern(&s_wrapped_call_impl, "_wrapped_call_impl"))
        return NULL;
    IndicesType.tp_base = &PyList_Type;
    CallsType.tp_base = &PyProperty_Type;
    CallsType.tp_basicsize = PyProperty_Type.tp_basicsize + (Py_ssize_t)sizeof(PyObject *);
    if (PyType_Ready(&ClockType) < 0 || PyType_Ready(&CallType) < 0 || PyType_Ready(&CallsType) < 0 || PyType_Ready(&DeviceType) < 0 || PyType_Ready(&PassType) < 0 || PyType_Ready(&WalkType) < 0 || PyType_Ready(&NextType) < 0 ||
        PyType_Ready(&SamplesType) < 0 || PyType_Ready(&IndicesType) < 0 || PyType_Ready(&FetchType) < 0 ||
        PyType_Ready(&NotedType) < 0 || PyType_Ready(&CollectionsType) < 0 || (made = PyModule_Create(&module)) == NULL)
        return NULL;
    if (PyModule_AddStringConstant(made, "LAYOUT", LAYOUT) < 0 ||
        PyModule_AddObject(made, "PhaseClock", Py_NewRef((PyObject *)&ClockType)) < 0 ||
        PyModule_AddObject(made, "CallsOf", Py_NewRef((PyObject *)&CallsType)) < 0 ||
        PyModule_AddObject(made, "TimedCall", Py_NewRef((PyObject *)&CallType)) < 0 ||
        PyModule_AddObject(made, "DeviceClock", Py_NewRef((PyObject *)&DeviceType)) < 0 ||
        PyModule_AddObject(made, "Pass", Py_NewRef((PyObject *)&PassType)) < 0 ||
        PyModule_AddObject(made, "timed_next", Py_NewRef((PyObject *)&NextType)) < 0 ||
        PyModule_AddObject(made, "SampleClock", Py_NewRef((PyObject *)&SamplesType)) < 0 ||
        PyModule_AddObject(made, "TimedIndices", Py_NewRef((PyObject *)&IndicesType)) < 0 ||
        PyModule_AddObject(made, "timed_fetch", Py_NewRef((PyObject *)&FetchType)) < 0 ||
        PyModule_AddObject(made, "noted_collate", Py_NewRef((PyObject *)&NotedType)) < 0 ||
        PyModule_AddObject(made, "TimedCollections", Py_NewRef((PyObject *)&CollectionsType)) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
