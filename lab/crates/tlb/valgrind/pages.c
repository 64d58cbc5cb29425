// A Valgrind tool: writes the pages that a program executes, in order, to a pipe, in the frames of
// ../src/wire.rs. `hugetext bench tlb` compiles it against the headers and archives of the installed
// Valgrind, as their interface differs from version to version.
//
// Each superblock counts its instructions up to each of its exits. It calls a function only where
// the page differs from the one before, which for its first instruction is known only when it runs.
//
// Option: --fd=N, the pipe.

#include "pub_tool_basics.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_wordfm.h"

// Moves a descriptor to where the program cannot reach it. Part of libcoregrind.a, not of the
// headers for tools.
extern Int VG_(safe_fd)(Int oldfd);

// ---- Frames: see ../src/wire.rs. ----

enum { OBJECT = 1, PAGE = 2, RUN = 3, THREAD = 4, END = 5 };
#define ANONYMOUS 0xffffffffu
#define PAGE_SHIFT 12
// Pages in a frame of 256 KiB.
#define RUN_PAGES (1 << 16)
#define NO_PAGE 0xffffffffu

// The pipe, or -1: not open yet, gone, or another process's (in a forked child).
static Int pipe_fd = -1;

static void write_all(const void* bytes, UInt length)
{
   const UChar* next = bytes;
   while (length > 0 && pipe_fd >= 0) {
      Int written = VG_(write)(pipe_fd, next, length);
      if (written <= 0) {
         pipe_fd = -1;
         return;
      }
      next += written;
      length -= written;
   }
}

static void write_frame(UInt kind, UInt id, const void* payload, UInt length)
{
   UInt header[3] = { kind, id, length };
   write_all(header, sizeof header);
   write_all(payload, length);
}

// ---- Threads: one runs at a time. ----

typedef struct {
   UInt  number;
   Bool  started;
   UInt  last;         // the page it executed last
   Addr  string;       // the repeated string instruction it is in the middle of, or 0
   ULong instructions;
} Thread;

static Thread* threads;            // by ThreadId
static ThreadId running = VG_INVALID_THREADID;
static UInt thread_count;
static Thread now;                 // the running one; superblocks read and write it here
static UInt run[RUN_PAGES];        // its pages that were not written yet
static UInt run_length;

static void flush_run(void)
{
   if (run_length > 0)
      write_frame(RUN, now.number, run, run_length * sizeof run[0]);
   run_length = 0;
}

static void put_aside(void)
{
   if (running == VG_INVALID_THREADID)
      return;
   flush_run();
   threads[running] = now;
   running = VG_INVALID_THREADID;
}

static void thread_runs(ThreadId tid, ULong blocks)
{
   if (tid == running)
      return;
   put_aside();
   now = threads[tid];
   running = tid;
   if (!now.started) {
      VG_(memset)(&now, 0, sizeof now);
      now.started = True;
      now.last = NO_PAGE;
      now.number = thread_count++;
   }
}

static void thread_ends(ThreadId tid)
{
   if (tid == running)
      put_aside();
   if (threads[tid].started)
      write_frame(THREAD, threads[tid].number, &threads[tid].instructions, sizeof(ULong));
   threads[tid].started = False;
}

// ---- What superblocks call. ----

static VG_REGPARM(1) void enter_page(HWord page)
{
   now.last = page;
   run[run_length++] = page;
   if (run_length == RUN_PAGES)
      flush_run();
}

// A superblock begins with a repeated string instruction: its first turn, or one of the following.
static VG_REGPARM(3) void string_turn(HWord address, HWord first, HWord second)
{
   if (now.string == address)
      return;
   now.string = address;
   now.instructions++;
   if (first != now.last)
      enter_page(first);
   if (second != first)
      enter_page(second);
}

// ---- Pages: known by their file and the offset there. ----

static const HChar** objects;      // paths
static UInt object_count, object_room;
static WordFM* pages;              // (object, offset) to page

static UInt object_of(const HChar* path)
{
   for (UInt object = 0; object < object_count; object++)
      if (VG_(strcmp)(objects[object], path) == 0)
         return object;
   if (object_count == object_room) {
      object_room = 2 * object_room + 64;
      objects = VG_(realloc)("objects", objects, object_room * sizeof objects[0]);
   }
   objects[object_count] = VG_(strdup)("path", path);
   write_frame(OBJECT, object_count, path, VG_(strlen)(path));
   return object_count++;
}

typedef struct { ULong offset; UInt object; } Place;

static Word compare_places(UWord left, UWord right)
{
   const Place* a = (const Place*)left;
   const Place* b = (const Place*)right;
   if (a->object != b->object)
      return a->object < b->object ? -1 : 1;
   return a->offset < b->offset ? -1 : a->offset > b->offset;
}

// The page that holds an address of the program; a new one is announced.
static UInt page_of(Addr address)
{
   Addr start = address >> PAGE_SHIFT << PAGE_SHIFT;
   Place place = { start, ANONYMOUS };
   const NSegment* segment = VG_(am_find_nsegment)(address);
   const HChar* path = segment == NULL ? NULL : VG_(am_get_filename)(segment);
   if (path != NULL && path[0] == '/') {
      place.object = object_of(path);
      place.offset = start - segment->start + segment->offset;
   }
   UWord page;
   if (VG_(lookupFM)(pages, NULL, &page, (UWord)&place))
      return page;
   page = VG_(sizeFM)(pages);
   Place* kept = VG_(malloc)("place", sizeof place);
   *kept = place;
   VG_(addToFM)(pages, (UWord)kept, page);
   UInt payload[3] = { place.object, (UInt)place.offset, (UInt)(place.offset >> 32) };
   write_frame(PAGE, page, payload, sizeof payload);
   return page;
}

// Whether the code at an address is Valgrind's own: its stand-ins for a few functions of the dynamic
// loader. They execute as if on the page of the function that they stand for.
static Bool is_stand_in(Addr address)
{
   const NSegment* segment = VG_(am_find_nsegment)(address);
   return segment != NULL && segment->kind == SkFileV;
}

// Whether an instruction is INS, OUTS, MOVS, LODS, STOS, CMPS or SCAS with a REP prefix. The processor
// counts one such instruction, however often it turns.
static Bool is_repeated_string(Addr address, UInt length)
{
#if defined(VGA_amd64)
   const UChar* byte = (const UChar*)address;
   const UChar* end = byte + length;
   Bool repeated = False;
   for (; byte < end; byte++) {
      if (*byte == 0xf2 || *byte == 0xf3)
         repeated = True;
      else if (*byte != 0x26 && *byte != 0x2e && *byte != 0x36 && *byte != 0x3e
               && (*byte < 0x64 || *byte > 0x67))
         break;
   }
   if (byte < end && (*byte & 0xf0) == 0x40)
      byte++;
   if (!repeated || byte == end)
      return False;
   return (*byte >= 0x6c && *byte <= 0x6f) || (*byte >= 0xa4 && *byte <= 0xa7)
          || (*byte >= 0xaa && *byte <= 0xaf);
#else
   return False;
#endif
}

// ---- Instrumentation. ----

// A superblock being written.
typedef struct {
   IRSB* block;
   UInt  pending;      // instructions since the last exit, not counted yet
   UInt  last;         // the page before the next instruction, or NO_PAGE: not known
   Addr  string;       // what now.string will hold there
   Addr  before;       // the instruction before, or 0
} Writer;

static void load(Writer* writer, IRType type, IRTemp to, const void* from)
{
   addStmtToIRSB(writer->block,
      IRStmt_WrTmp(to, IRExpr_Load(Iend_LE, type, mkIRExpr_HWord((HWord)from))));
}

static void store(Writer* writer, void* to, IRExpr* value)
{
   addStmtToIRSB(writer->block, IRStmt_Store(Iend_LE, mkIRExpr_HWord((HWord)to), value));
}

static void count_pending(Writer* writer)
{
   if (writer->pending == 0)
      return;
   IRTemp before = newIRTemp(writer->block->tyenv, Ity_I64);
   IRTemp after = newIRTemp(writer->block->tyenv, Ity_I64);
   load(writer, Ity_I64, before, &now.instructions);
   addStmtToIRSB(writer->block,
      IRStmt_WrTmp(after, IRExpr_Binop(Iop_Add64, IRExpr_RdTmp(before),
                                       IRExpr_Const(IRConst_U64(writer->pending)))));
   store(writer, &now.instructions, IRExpr_RdTmp(after));
   writer->pending = 0;
}

static void enter(Writer* writer, UInt page)
{
   if (page == writer->last)
      return;
   IRDirty* call = unsafeIRDirty_0_N(1, "enter_page", VG_(fnptr_to_fnentry)(&enter_page),
                                     mkIRExprVec_1(mkIRExpr_HWord(page)));
   if (writer->last == NO_PAGE) {
      IRTemp last = newIRTemp(writer->block->tyenv, Ity_I32);
      IRTemp differs = newIRTemp(writer->block->tyenv, Ity_I1);
      load(writer, Ity_I32, last, &now.last);
      addStmtToIRSB(writer->block,
         IRStmt_WrTmp(differs, IRExpr_Binop(Iop_CmpNE32, IRExpr_RdTmp(last),
                                            IRExpr_Const(IRConst_U32(page)))));
      call->guard = IRExpr_RdTmp(differs);
   }
   addStmtToIRSB(writer->block, IRStmt_Dirty(call));
   writer->last = page;
}

static void note_string(Writer* writer, Addr string)
{
#if defined(VGA_amd64)
   // At the start of a superblock it is not known, and `before` is 0.
   if (writer->before == 0 || string != writer->string)
      store(writer, &now.string, mkIRExpr_HWord(string));
#endif
   writer->string = string;
}

static void instruction(Writer* writer, Addr address, UInt length, Addr instead_of)
{
   Addr last = address + (length > 0 ? length - 1 : 0);
   if (instead_of != 0)
      address = last = instead_of;
   Bool string = instead_of == 0 && is_repeated_string(address, length);
   // Valgrind may write a loop's turns one after the other.
   if (string && address == writer->before)
      return;
   UInt first = page_of(address);
   UInt second = first;
   if (address >> PAGE_SHIFT != last >> PAGE_SHIFT)
      second = page_of(last);
   if (string && writer->before == 0) {
      addStmtToIRSB(writer->block, IRStmt_Dirty(unsafeIRDirty_0_N(
         3, "string_turn", VG_(fnptr_to_fnentry)(&string_turn),
         mkIRExprVec_3(mkIRExpr_HWord(address), mkIRExpr_HWord(first), mkIRExpr_HWord(second)))));
      writer->string = address;
      writer->last = second;
   } else {
      note_string(writer, string ? address : 0);
      enter(writer, first);
      enter(writer, second);
      writer->pending++;
   }
   writer->before = address;
}

static IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                        const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word,
                        IRType host_word)
{
   Writer writer = { deepCopyIRSBExceptStmts(in), 0, NO_PAGE, 0, 0 };
   Bool stand_in = is_stand_in(closure->readdr);
   // Beyond its first superblock a stand-in is called by nobody but itself.
   Addr instead_of = stand_in ? closure->nraddr : 0;
   Bool counts_only = stand_in && is_stand_in(closure->nraddr);
   for (Int at = 0; at < in->stmts_used; at++) {
      IRStmt* statement = in->stmts[at];
      if (statement->tag == Ist_IMark) {
         if (counts_only)
            writer.pending++;
         else
            instruction(&writer, statement->Ist.IMark.addr, statement->Ist.IMark.len, instead_of);
      } else if (statement->tag == Ist_Exit) {
         count_pending(&writer);
      }
      addStmtToIRSB(writer.block, statement);
   }
   count_pending(&writer);
   return writer.block;
}

// ---- The tool. ----

static void forked(ThreadId tid)
{
   if (pipe_fd >= 0)
      VG_(close)(pipe_fd);
   pipe_fd = -1;
}

static Int option_fd = -1;

static Bool option(const HChar* text)
{
   return VG_BINT_CLO(text, "--fd", option_fd, 0, 1 << 20);
}

static void no_text(void)
{
}

static void begin(void)
{
   if (option_fd < 0) {
      VG_(printf)("hugetext: the tool needs --fd=N, an open pipe\n");
      VG_(exit)(1);
   }
   pipe_fd = VG_(safe_fd)(option_fd);
   threads = VG_(calloc)("threads", VG_N_THREADS, sizeof threads[0]);
   pages = VG_(newFM)(VG_(malloc), "pages", VG_(free), compare_places);
   VG_(atfork)(NULL, NULL, forked);
}

static void finish(Int exit_code)
{
   put_aside();
   for (UInt tid = 0; tid < VG_N_THREADS; tid++)
      thread_ends(tid);
   write_frame(END, 0, NULL, 0);
}

static void prepare(void)
{
   VG_(details_name)("hugetext");
   VG_(details_version)(NULL);
   VG_(details_description)("the pages a program executes");
   VG_(details_copyright_author)("The hugetext authors.");
   VG_(details_bug_reports_to)("the hugetext authors");
   VG_(details_avg_translation_sizeB)(300);
   VG_(basic_tool_funcs)(begin, instrument, finish);
   VG_(needs_command_line_options)(option, no_text, no_text);
   VG_(track_start_client_code)(thread_runs);
   VG_(track_pre_thread_ll_exit)(thread_ends);
}

VG_DETERMINE_INTERFACE_VERSION(prepare)
