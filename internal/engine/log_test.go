package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/engine"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/run"
)

func (k *worker) log(chunks ...run.LogChunk) (int64, error) {
	return k.w.engine.AppendLogs(k.ctx(), k.agent, k.work.Task.ID, k.work.Attempt.ID, chunks)
}

// stored is the attempt's log as it is kept.
func (k *worker) stored() []engine.LogPart {
	k.w.t.Helper()
	var all []engine.LogPart
	for after := int64(-1); ; {
		parts, err := k.w.engine.Logs(k.ctx(), k.w.alice, k.work.Run.ID, k.work.Attempt.ID, after, 50)
		if k.w.ok(err); len(parts) == 0 {
			return all
		}
		all = append(all, parts...)
		after = parts[len(parts)-1].Seq
	}
}

func line(n int) run.LogChunk {
	return run.LogChunk{Seq: int64(n), Stage: "plan", Text: fmt.Sprintf("line %d\n", n)}
}

// R26: chunks come in order, once, without a gap, however they are sent; the tail may come late, but not for ever.
func TestR26LogTailAndOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
		w.start(w.startRun("shop"))
		k := w.take(w.agents[0])
		expect := func(want int64, chunks ...run.LogChunk) {
			t.Helper()
			if next, err := k.log(chunks...); err != nil || next != want {
				t.Fatalf("AppendLogs from %d = %d, %v, want %d", chunks[0].Seq, next, err, want)
			}
		}
		expect(2, line(0), line(1))
		expect(2, line(0), line(1))          // twice
		expect(2, line(3), line(4))          // after a gap: refused, from 2 on
		expect(3, line(1), line(2))          // over what is there
		expect(4, line(5), line(3))          // out of order
		expect(5, line(4), line(4), line(4)) // thrice in one
		expect(6, line(5), line(7))
		w.ok(k.deliverPlan())
		k.succeed()
		w.clock.move(10 * time.Second)
		expect(7, line(6)) // after "finished"
		w.clock.move(14 * time.Minute)
		expect(8, line(7))
		var got strings.Builder
		for i, p := range k.stored() {
			if p.Seq != int64(i) || p.Component != "main" || p.Kind != run.TaskPlan {
				t.Errorf("part %d is %+v", i, p)
			}
			got.WriteString(p.Text)
		}
		want := "line 0\nline 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\n"
		if got.String() != want {
			t.Errorf("stored %q, want %q", got.String(), want)
		}
		w.clock.move(time.Minute)
		_, err := k.log(line(8))
		wantCode(t, err, fault.Conflict, "log_closed")
	})
}

// R27: a log that is too long is cut with one mark; the agent goes on and everything it sends is acknowledged.
func TestR27HugeLog(t *testing.T) {
	w := newRunWorld(t, openSQLite(t))
	w.putStack(engine.PutStack{Name: "shop", Approval: run.Always})
	r := w.start(w.startRun("shop"))
	k := w.take(w.agents[0])
	// One chunk that is longer than is taken, ending in the middle of a character.
	if next, err := k.log(run.LogChunk{Text: strings.Repeat("€", engine.LogChunkBytes)}); err != nil || next != 1 {
		t.Fatalf("the long chunk: %d, %v", next, err)
	}
	first := k.stored()[0].Text
	if len(first) > engine.LogChunkBytes || !strings.HasSuffix(first, "longer than is taken]\n") || strings.Contains(first, "\uFFFD") {
		t.Errorf("the long chunk is kept as %d bytes, ending in %q", len(first), first[len(first)-80:])
	}
	text := strings.Repeat("0123456789abcdef", engine.LogChunkBytes/16)
	seq := int64(1)
	for sent := 0; sent < engine.LogTotalBytes+10*engine.LogChunkBytes; {
		var chunks []run.LogChunk
		for range 16 {
			chunks = append(chunks, run.LogChunk{Seq: seq, Text: text})
			seq++
			sent += len(text)
		}
		next, err := k.log(chunks...)
		if err != nil || next != seq {
			t.Fatalf("chunks up to %d: %d, %v, want them acknowledged", seq, next, err)
		}
	}
	total, marks := 0, 0
	for after := int64(-1); ; {
		parts, err := w.engine.Logs(t.Context(), w.alice, r.ID, k.work.Attempt.ID, after, 16)
		if w.ok(err); len(parts) == 0 {
			break
		}
		for _, p := range parts {
			total += len(p.Text)
			marks += strings.Count(p.Text, "stores no more of this log")
			after = p.Seq
		}
	}
	if over := total - engine.LogTotalBytes; over < 0 || over > 100 || marks != 1 { // the mark itself may stand beyond it
		t.Errorf("kept %d bytes with %d marks, want about %d with one", total, marks, engine.LogTotalBytes)
	}
	w.ok(k.deliverPlan())
	k.succeed()
	w.wantStatus(r.ID, run.AwaitingApproval)
}

func TestLogTextThatCannotBeStored(t *testing.T) {
	onBoth(t, func(t *testing.T, w *runWorld) {
		w.t = t
		w.putStack(engine.PutStack{Name: "shop"})
		r := w.start(w.startRun("shop"))
		k := w.take(w.agents[0])
		if next, err := k.log(run.LogChunk{Text: "a\x00b\xffc\x1b[31m\u202e", Stage: "pl\x00an"}); err != nil || next != 1 {
			t.Fatalf("AppendLogs = %d, %v", next, err)
		}
		if got, want := k.stored()[0].Text, "a\uFFFDb\uFFFDc\x1b[31m\u202e"; got != want {
			t.Errorf("kept as %q, want %q", got, want)
		}
		if _, err := w.engine.Logs(t.Context(), w.alice, r.ID, "att_none", -1, 10); fault.Code(err) != "attempt_not_found" {
			t.Errorf("the log of no attempt: %v", err)
		}
		other := w.planTo2("other")
		if _, err := w.engine.Logs(t.Context(), w.alice, other.ID, k.work.Attempt.ID, -1, 10); fault.Code(err) != "attempt_not_found" {
			t.Errorf("the log of another run's attempt: %v", err)
		}
	})
}

// planTo2 is a run of another stack that was planned.
func (w *runWorld) planTo2(stack string) run.Run {
	w.putStack(engine.PutStack{Name: stack, Approval: run.Always})
	r := w.start(w.startRun(stack))
	w.take(w.agents[1]).planned()
	return w.run(r.ID)
}
