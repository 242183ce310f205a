package state_test

import (
	"strings"
	"testing"
	"time"

	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/state"
)

var at = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func user(id string) state.Sender {
	return state.Sender{Holder: state.Holder{Kind: state.HolderUser, ID: id, Name: id}}
}

func admin(id string) state.Sender {
	s := user(id)
	s.Manage = true
	return s
}

func attempt(id, run string) state.Sender {
	return state.Sender{Holder: state.Holder{Kind: state.HolderAttempt, ID: id, Name: "agent", Run: run, Attempt: id}}
}

func planner(id, run string) state.Sender { s := attempt(id, run); s.Plan = true; return s }
func applier(id, run string) state.Sender { s := attempt(id, run); s.Apply = true; return s }

// lockedBy is a state with a head of serial 5 and a lock of id A, taken as lck_1.
func lockedBy(h state.Sender, but ...func(*state.Version)) state.State {
	s := unlocked(but...)
	s.Lock = &state.Lock{Key: "lck_1", Info: state.LockInfo{ID: "A", Operation: "OperationTypeApply"}, Holder: h.Holder, TakenAt: at}
	return s
}

func unlocked(but ...func(*state.Version)) state.State {
	head := state.Version{
		Number: 3, Serial: serial(5), Lineage: "lin", SHA256: "head",
		LockKey: "lck_0", LockID: "Z", By: user("ann").Holder,
	}
	for _, f := range but {
		f(&head)
	}
	return state.State{ID: "sta_1", Name: "net", Versions: 3, Head: &head}
}

func withoutLock(head *state.Version)   { head.LockKey, head.LockID = "", "" }
func withoutSerial(head *state.Version) { head.Serial = state.Serial{} }

func heldBy(run string, s state.State) state.State {
	s.Hold = &state.Hold{Run: run, Since: at}
	return s
}

func deleted(s state.State) state.State {
	s.DeletedAt = at
	return s
}

// underLock is a state whose head was written under the lock that is held.
func underLock(h state.Sender) state.State {
	s := lockedBy(h)
	s.Head.LockKey, s.Head.LockID, s.Head.By = "lck_1", "A", h.Holder
	return s
}

func serial(n uint64) state.Serial { return state.Serial{N: n, Known: true} }

// reader may read and no more.
func reader(id string) state.Sender { s := attempt(id, "run_9"); s.Read = true; return s }

func TestMayLock(t *testing.T) {
	for name, c := range map[string]struct {
		s    state.State
		by   state.Sender
		id   string
		dead bool
		want state.LockStep
		code string
	}{
		"free":                         {unlocked(), user("ann"), "A", false, state.LockTake, ""},
		"W3 repeat":                    {lockedBy(user("ann")), user("ann"), "A", false, state.LockHave, ""},
		"same user, other id":          {lockedBy(user("ann")), user("ann"), "B", false, 0, "state_locked"},
		"L02 somebody else":            {lockedBy(user("ann")), user("ben"), "B", false, 0, "state_locked"},
		"somebody else's id":           {lockedBy(user("ann")), user("ben"), "A", false, 0, "state_locked"},
		"an administrator":             {lockedBy(user("ann")), admin("ben"), "B", false, 0, "state_locked"},
		"same id, user for attempt":    {lockedBy(attempt("1", "run_1")), user("1"), "A", false, 0, "state_locked"},
		"dead holder":                  {lockedBy(attempt("att_1", "run_1")), user("ben"), "B", true, state.LockTake, ""},
		"dead holder, hold stays":      {heldBy("run_1", lockedBy(attempt("att_1", "run_1"))), user("ben"), "B", true, 0, "state_locked"},
		"dead holder, retry of run":    {heldBy("run_1", lockedBy(attempt("att_1", "run_1"))), attempt("att_2", "run_1"), "B", true, state.LockTake, ""},
		"held":                         {heldBy("run_1", unlocked()), admin("ann"), "A", false, 0, "state_locked"},
		"held by another run":          {heldBy("run_1", unlocked()), attempt("att_2", "run_2"), "A", false, 0, "state_locked"},
		"held by its run":              {heldBy("run_1", unlocked()), attempt("att_2", "run_1"), "A", false, state.LockTake, ""},
		"a user claiming to be a run":  {heldBy("run_1", unlocked()), state.Sender{Holder: state.Holder{Kind: "user", ID: "x", Run: "run_1"}}, "A", false, 0, "state_locked"},
		"read only":                    {unlocked(), reader("att_3"), "A", false, 0, "read_only"},
		"S19 deleted":                  {deleted(unlocked()), user("ann"), "A", false, 0, "state_deleted"},
		"retry's token, earlier lock":  {lockedBy(attempt("att_1", "run_1")), attempt("att_2", "run_1"), "A", false, 0, "state_locked"},
		"empty id is an id like other": {lockedBy(user("ann")), user("ann"), "", false, 0, "state_locked"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := state.MayLock(c.s, c.by, c.id, c.dead)
			if got != c.want || fault.Code(err) != c.code {
				t.Errorf("got %d, %v; want %d, code %q", got, err, c.want, c.code)
			}
		})
	}
}

func TestMayWrite(t *testing.T) {
	next := state.Document{Serial: serial(6), Lineage: "lin"}
	same := state.Document{Serial: serial(5), Lineage: "lin"}
	empty := state.State{ID: "sta_1", Name: "net"}
	emptyLocked := lockedBy(planner("att_1", "run_1"))
	emptyLocked.Head = nil
	unknown := unlocked()
	unknown.Head.Serial, unknown.Head.Lineage = state.Serial{}, ""
	for name, c := range map[string]struct {
		s    state.State
		by   state.Sender
		w    state.Write
		dead bool
		want state.WriteStep
		code string
	}{
		"first":               {empty, user("ann"), state.Write{Document: next, SHA256: "n"}, false, state.WriteStep{}, ""},
		"W9 without a lock":   {unlocked(), user("ann"), state.Write{Document: next, SHA256: "n"}, false, state.WriteStep{}, ""},
		"under its lock":      {lockedBy(user("ann")), user("ann"), state.Write{LockID: "A", Document: next, SHA256: "n"}, false, state.WriteStep{Under: true}, ""},
		"W2 second save":      {underLock(user("ann")), user("ann"), state.Write{LockID: "A", Document: next, SHA256: "n"}, false, state.WriteStep{Under: true, Replace: true}, ""},
		"serial skips":        {lockedBy(user("ann")), user("ann"), state.Write{LockID: "A", Document: state.Document{Serial: serial(900), Lineage: "lin"}, SHA256: "n"}, false, state.WriteStep{Under: true}, ""},
		"serial beyond int64": {lockedBy(user("ann")), user("ann"), state.Write{LockID: "A", Document: state.Document{Serial: serial(1<<64 - 1)}, SHA256: "n"}, false, state.WriteStep{Under: true}, ""},

		"L07 locked, no id":           {lockedBy(user("ann")), user("ann"), state.Write{Document: next, SHA256: "n"}, false, state.WriteStep{}, "state_locked"},
		"L07 locked, wrong id":        {lockedBy(user("ann")), user("ann"), state.Write{LockID: "B", Document: next, SHA256: "n"}, false, state.WriteStep{}, "state_locked"},
		"L07 somebody else's id":      {lockedBy(user("ann")), user("ben"), state.Write{LockID: "A", Document: next, SHA256: "n"}, false, state.WriteStep{}, "state_locked"},
		"L07 administrator's no":      {lockedBy(user("ann")), admin("ben"), state.Write{LockID: "A", Document: next, SHA256: "n"}, false, state.WriteStep{}, "state_locked"},
		"attempt without the id":      {lockedBy(applier("att_1", "run_1")), applier("att_1", "run_1"), state.Write{Document: next, SHA256: "n"}, false, state.WriteStep{}, ""},
		"attempt with a wrong id":     {lockedBy(applier("att_1", "run_1")), applier("att_1", "run_1"), state.Write{LockID: "B", Document: next, SHA256: "n"}, false, state.WriteStep{}, "state_locked"},
		"id of a released lock":       {unlocked(), user("ann"), state.Write{LockID: "A", Document: next, SHA256: "n"}, false, state.WriteStep{}, "lock_lost"},
		"dead holder, taken over":     {lockedBy(attempt("att_1", "run_1")), user("ben"), state.Write{Document: next, SHA256: "n"}, true, state.WriteStep{}, ""},
		"dead holder's own late save": {lockedBy(applier("att_1", "run_1")), applier("att_1", "run_1"), state.Write{LockID: "A", Document: next, SHA256: "n"}, true, state.WriteStep{Keep: true}, "lock_lost"},
		"held":                        {heldBy("run_1", unlocked()), user("ann"), state.Write{Document: next, SHA256: "n"}, false, state.WriteStep{}, "state_locked"},
		"held, its run":               {heldBy("run_1", unlocked()), applier("att_1", "run_1"), state.Write{Document: next, SHA256: "n"}, false, state.WriteStep{}, ""},
		"deleted":                     {deleted(unlocked()), user("ann"), state.Write{Document: next, SHA256: "n"}, false, state.WriteStep{}, "state_deleted"},
		"read only":                   {unlocked(), reader("att_1"), state.Write{Document: next, SHA256: "n"}, false, state.WriteStep{}, "read_only"},

		"W4 repeat under the lock":      {underLock(user("ann")), user("ann"), state.Write{LockID: "A", Document: same, SHA256: "head"}, false, state.WriteStep{Same: true}, ""},
		"S01 same bytes, other lock":    {unlocked(), user("ann"), state.Write{LockID: "Q", Document: same, SHA256: "head"}, false, state.WriteStep{}, "lock_lost"},
		"S01 same bytes, no lock named": {lockedBy(user("ben"), withoutLock), user("ann"), state.Write{Document: same, SHA256: "head"}, false, state.WriteStep{}, "state_locked"},
		"a step's save without the id":  {underLock(attempt("att_1", "run_1")), attempt("att_1", "run_1"), state.Write{Document: next, SHA256: "n"}, false, state.WriteStep{}, ""},
		"a dead step's is kept no more": {lockedBy(attempt("att_1", "run_1")), attempt("att_1", "run_1"), state.Write{Document: state.Document{Serial: serial(4), Lineage: "lin"}, SHA256: "n"}, true, state.WriteStep{}, "serial_too_low"},
		"head without a serial":         {unlocked(withoutSerial), user("ann"), state.Write{Document: state.Document{Serial: serial(0), Lineage: "lin"}, SHA256: "n"}, false, state.WriteStep{}, ""},
		"S01 repeat after the release":  {unlocked(), user("ann"), state.Write{LockID: "Z", Document: same, SHA256: "head"}, false, state.WriteStep{Same: true}, ""},
		"S01 repeat under a later lock": {lockedBy(user("ben")), user("ann"), state.Write{LockID: "Z", Document: same, SHA256: "head"}, false, state.WriteStep{Same: true}, ""},
		"repeat by another user":        {lockedBy(user("cat")), user("ben"), state.Write{LockID: "Z", Document: same, SHA256: "head"}, false, state.WriteStep{}, "state_locked"},
		"S09 equal bytes, own lock":     {lockedBy(user("ben")), user("ben"), state.Write{LockID: "A", Document: same, SHA256: "head"}, false, state.WriteStep{Same: true}, ""},

		"equal serial, head's own lock": {underLock(user("ann")), user("ann"), state.Write{LockID: "A", Document: same, SHA256: "n"}, false, state.WriteStep{Under: true, Replace: true}, ""},
		"S02 equal serial, later lock":  {lockedBy(user("ann")), user("ann"), state.Write{LockID: "A", Document: same, SHA256: "n"}, false, state.WriteStep{Keep: true}, "serial_taken"},
		"S02 equal serial, no lock":     {unlocked(), user("ann"), state.Write{Document: same, SHA256: "n"}, false, state.WriteStep{}, "serial_taken"},
		"S02 lower serial":              {lockedBy(user("ann")), user("ann"), state.Write{LockID: "A", Document: state.Document{Serial: serial(4), Lineage: "lin"}, SHA256: "n"}, false, state.WriteStep{Keep: true}, "serial_too_low"},
		"S02 lower serial, same lock":   {underLock(user("ann")), user("ann"), state.Write{LockID: "A", Document: state.Document{Serial: serial(4), Lineage: "lin"}, SHA256: "n"}, false, state.WriteStep{Keep: true}, "serial_too_low"},
		"S02 other lineage":             {lockedBy(user("ann")), user("ann"), state.Write{LockID: "A", Document: state.Document{Serial: serial(6), Lineage: "new"}, SHA256: "n"}, false, state.WriteStep{Keep: true}, "other_lineage"},
		"other lineage, no lock":        {unlocked(), user("ann"), state.Write{Document: state.Document{Serial: serial(6), Lineage: "new"}, SHA256: "n"}, false, state.WriteStep{}, "other_lineage"},
		"lineage left out":              {unlocked(), user("ann"), state.Write{Document: state.Document{Serial: serial(6)}, SHA256: "n"}, false, state.WriteStep{}, ""},
		"serial left out":               {unlocked(), user("ann"), state.Write{Document: state.Document{Lineage: "lin"}, SHA256: "n"}, false, state.WriteStep{}, ""},
		"head says neither":             {unknown, user("ann"), state.Write{Document: state.Document{Serial: serial(1), Lineage: "new"}, SHA256: "n"}, false, state.WriteStep{}, ""},

		"a plan's empty first state":  {emptyLocked, planner("att_1", "run_1"), state.Write{LockID: "A", Document: state.Document{Serial: serial(1)}, SHA256: "n"}, false, state.WriteStep{Under: true}, ""},
		"a plan's first resources":    {emptyLocked, planner("att_1", "run_1"), state.Write{LockID: "A", Document: state.Document{Serial: serial(1), Resources: true}, SHA256: "n"}, false, state.WriteStep{}, "plan_may_not_write"},
		"a plan over what is there":   {lockedBy(planner("att_1", "run_1")), planner("att_1", "run_1"), state.Write{LockID: "A", Document: next, SHA256: "n"}, false, state.WriteStep{}, "plan_may_not_write"},
		"a plan's repeat of the head": {lockedBy(planner("att_1", "run_1")), planner("att_1", "run_1"), state.Write{LockID: "A", Document: same, SHA256: "head"}, false, state.WriteStep{Same: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := state.MayWrite(c.s, c.by, c.w, c.dead)
			if got != c.want || fault.Code(err) != c.code {
				t.Errorf("got %+v, %v; want %+v, code %q", got, err, c.want, c.code)
			}
		})
	}
}

func TestMayUnlock(t *testing.T) {
	released := state.UnlockStep{Release: true}
	for name, c := range map[string]struct {
		s    state.State
		by   state.Sender
		u    state.Unlock
		want state.UnlockStep
		code string
	}{
		"its holder":                {lockedBy(user("ann")), user("ann"), state.Unlock{ID: "A"}, released, ""},
		"L04 repeat":                {unlocked(), user("ann"), state.Unlock{ID: "A"}, state.UnlockStep{}, ""},
		"L04 late, newer lock":      {lockedBy(user("ben")), user("ann"), state.Unlock{ID: "old"}, state.UnlockStep{}, "other_lock"},
		"L05 id of a former lock":   {lockedBy(user("ann")), user("ann"), state.Unlock{ID: "old"}, state.UnlockStep{}, "other_lock"},
		"L01c other id, admin":      {lockedBy(user("ann")), admin("eve"), state.Unlock{ID: "B"}, state.UnlockStep{}, "other_lock"},
		"L01b held id, admin":       {lockedBy(user("ann")), admin("eve"), state.Unlock{ID: "A"}, state.UnlockStep{Release: true, Forced: true}, ""},
		"held id, operator":         {lockedBy(user("ann")), user("ben"), state.Unlock{ID: "A"}, state.UnlockStep{}, "force_needs_manage"},
		"held id, attempt":          {lockedBy(user("ann")), attempt("att_1", "run_1"), state.Unlock{ID: "A"}, state.UnlockStep{}, "attempt_may_not_force"},
		"L01a empty, admin":         {heldBy("run_1", lockedBy(attempt("att_1", "run_1"))), admin("eve"), state.Unlock{}, state.UnlockStep{Release: true, EndHold: true, Forced: true}, ""},
		"L01a empty, operator":      {lockedBy(user("ann")), user("ben"), state.Unlock{}, state.UnlockStep{Release: true, Forced: true}, "force_needs_manage"},
		"L01a empty, attempt":       {lockedBy(attempt("att_1", "run_1")), attempt("att_1", "run_1"), state.Unlock{}, state.UnlockStep{}, "attempt_may_not_force"},
		"empty, own lock":           {lockedBy(user("ann")), user("ann"), state.Unlock{}, released, ""},
		"empty, own lock and hold":  {heldBy("run_1", lockedBy(user("ann"))), user("ann"), state.Unlock{}, state.UnlockStep{Release: true, EndHold: true, Forced: true}, "force_needs_manage"},
		"empty, nothing held":       {unlocked(), user("ann"), state.Unlock{}, state.UnlockStep{}, ""},
		"empty, only a hold":        {heldBy("run_1", unlocked()), user("ann"), state.Unlock{}, state.UnlockStep{EndHold: true, Forced: true}, "force_needs_manage"},
		"hold by id, admin":         {heldBy("run_1", lockedBy(attempt("att_1", "run_1"))), admin("eve"), state.Unlock{ID: "hold-run_1"}, state.UnlockStep{EndHold: true, Forced: true}, ""},
		"hold by id, operator":      {heldBy("run_1", unlocked()), user("ben"), state.Unlock{ID: "hold-run_1"}, state.UnlockStep{}, "force_needs_manage"},
		"hold by id, its attempt":   {heldBy("run_1", unlocked()), attempt("att_1", "run_1"), state.Unlock{ID: "hold-run_1"}, state.UnlockStep{}, "attempt_may_not_force"},
		"another hold's id":         {heldBy("run_1", lockedBy(user("ann"))), admin("eve"), state.Unlock{ID: "hold-run_2"}, state.UnlockStep{}, "other_lock"},
		"L01 force, own lock":       {lockedBy(user("ann")), user("ann"), state.Unlock{ID: "A", Force: true}, state.UnlockStep{Release: true, Forced: true}, ""},
		"L01 force, own, empty":     {lockedBy(user("ann")), user("ann"), state.Unlock{Force: true}, state.UnlockStep{Release: true, Forced: true}, ""},
		"L01 force, dead holder's":  {lockedBy(attempt("att_1", "run_1")), user("ben"), state.Unlock{ID: "A", Force: true, Dead: true}, state.UnlockStep{Release: true, Forced: true}, ""},
		"L01 force, empty, dead":    {lockedBy(attempt("att_1", "run_1")), user("ben"), state.Unlock{Force: true, Dead: true}, state.UnlockStep{Release: true, Forced: true}, ""},
		"L01 force, other id":       {lockedBy(user("ann")), admin("eve"), state.Unlock{ID: "B", Force: true}, state.UnlockStep{}, "other_lock"},
		"L01 force, nothing held":   {unlocked(), admin("eve"), state.Unlock{Force: true}, state.UnlockStep{}, ""},
		"L01 a step never forces":   {lockedBy(attempt("att_1", "run_1")), attempt("att_1", "run_1"), state.Unlock{ID: "A", Force: true}, released, ""},
		"L01 nor a dead step's":     {lockedBy(attempt("att_1", "run_1")), attempt("att_2", "run_1"), state.Unlock{ID: "A", Force: true, Dead: true}, released, ""},
		"dead holder's":             {lockedBy(attempt("att_1", "run_1")), user("ben"), state.Unlock{ID: "A", Dead: true}, released, ""},
		"apply ends the hold":       {heldBy("run_1", lockedBy(applier("att_1", "run_1"))), applier("att_1", "run_1"), state.Unlock{ID: "A"}, state.UnlockStep{Release: true, EndHold: true}, ""},
		"apply that could not save": {heldBy("run_1", lockedBy(applier("att_1", "run_1"))), applier("att_1", "run_1"), state.Unlock{ID: "A", Unsaved: true}, released, ""},
		"apply without a hold":      {lockedBy(applier("att_1", "run_1")), applier("att_1", "run_1"), state.Unlock{ID: "A"}, released, ""},
		"apply, another run's hold": {heldBy("run_2", lockedBy(applier("att_1", "run_1"))), applier("att_1", "run_1"), state.Unlock{ID: "A"}, released, ""},
		"plan keeps the hold":       {heldBy("run_1", lockedBy(planner("att_1", "run_1"))), planner("att_1", "run_1"), state.Unlock{ID: "A"}, released, ""},
		"retry's token":             {lockedBy(attempt("att_1", "run_1")), attempt("att_2", "run_1"), state.Unlock{ID: "A"}, state.UnlockStep{}, "attempt_may_not_force"},
		"deleted":                   {deleted(unlocked()), user("ann"), state.Unlock{ID: "A"}, state.UnlockStep{}, "state_deleted"},
		"read only":                 {lockedBy(user("ann")), reader("att_1"), state.Unlock{ID: "A"}, state.UnlockStep{}, "read_only"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := state.MayUnlock(c.s, c.by, c.u)
			if fault.Code(err) != c.code || err == nil && got != c.want {
				t.Errorf("got %+v, %v; want %+v, code %q", got, err, c.want, c.code)
			}
		})
	}
}

func TestMayChange(t *testing.T) {
	for name, c := range map[string]struct {
		s    state.State
		by   state.Sender
		dead bool
		code string
	}{
		"free":           {unlocked(), user("ann"), false, ""},
		"S19 own lock":   {lockedBy(user("ann")), user("ann"), false, "state_locked"},
		"held":           {heldBy("run_1", unlocked()), admin("ann"), false, "state_locked"},
		"dead holder":    {lockedBy(attempt("att_1", "run_1")), user("ann"), true, ""},
		"dead, but held": {heldBy("run_1", lockedBy(attempt("att_1", "run_1"))), user("ann"), true, "state_locked"},
		"deleted":        {deleted(unlocked()), user("ann"), false, "state_deleted"},
	} {
		if err := state.MayChange(c.s, c.by, c.dead); fault.Code(err) != c.code {
			t.Errorf("%s: %v, want code %q", name, err, c.code)
		}
	}
}

// A holder that leaves out the lock's id is told what to send.
func TestOwnLockWithoutItsIDSaysWhatToSend(t *testing.T) {
	_, err := state.MayWrite(lockedBy(user("ann")), user("ann"), state.Write{SHA256: "n"}, false)
	if f := fault.From(err); !strings.Contains(f.Hint, "?ID=") {
		t.Errorf("hint %q, want the parameter", f.Hint)
	}
}

// What is being purged is told from what was deleted: it cannot be restored.
func TestPresent(t *testing.T) {
	s := unlocked()
	if err := state.Present(s); err != nil {
		t.Error(err)
	}
	if err := state.Present(deleted(s)); fault.Code(err) != "state_deleted" || !fault.Is(err, fault.Gone) || !strings.Contains(fault.From(err).Hint, "restore") {
		t.Errorf("deleted: %v", err)
	}
	s.DeletedAt = state.PurgedAt()
	if err := state.Present(s); fault.Code(err) != "state_purged" || !fault.Is(err, fault.Gone) || strings.Contains(fault.From(err).Hint, "restore") {
		t.Errorf("purged: %v", err)
	}
}

func TestMayAccept(t *testing.T) {
	kept := state.Version{Number: 2, Quarantined: true, By: attempt("att_1", "run_1").Holder}
	for name, c := range map[string]struct {
		s    state.State
		code string
	}{
		"free":                   {unlocked(), ""},
		"held for this save":     {heldBy("run_1", unlocked()), ""},
		"held by another run":    {heldBy("run_2", unlocked()), "state_locked"},
		"locked":                 {lockedBy(user("ann")), "state_locked"},
		"locked and held for it": {heldBy("run_1", lockedBy(attempt("att_1", "run_1"))), "state_locked"},
		"deleted":                {deleted(unlocked()), "state_deleted"},
	} {
		if err := state.MayAccept(c.s, user("ann"), kept, false); fault.Code(err) != c.code {
			t.Errorf("%s: %v, want code %q", name, err, c.code)
		}
	}
	own := kept
	own.By = user("ann").Holder
	if err := state.MayAccept(heldBy("run_1", unlocked()), user("ann"), own, false); fault.Code(err) != "state_locked" {
		t.Errorf("a person's save while a run holds: %v, want state_locked", err)
	}
}

// L02: a conflict carries the holder's document, never the asker's, and says who holds it and since when.
func TestL02ConflictNamesTheHolder(t *testing.T) {
	said := lockedBy(user("ann"))
	said.Lock.Info.Info = "maintenance until noon"
	for name, c := range map[string]struct {
		s        state.State
		id, info string
	}{
		"user":           {lockedBy(user("ann")), "A", "held by user ann since 2026-03-04T05:06:07Z"},
		"attempt":        {lockedBy(attempt("att_1", "run_1")), "A", "held by run run_1, attempt att_1 (agent) since 2026-03-04T05:06:07Z"},
		"hold":           {heldBy("run_1", unlocked()), "hold-run_1", "held for run run_1 until it has applied, since 2026-03-04T05:06:07Z"},
		"lock and hold":  {heldBy("run_1", lockedBy(attempt("att_1", "run_1"))), "A", "held by run run_1, attempt att_1 (agent) since 2026-03-04T05:06:07Z"},
		"it says itself": {said, "A", "maintenance until noon"},
	} {
		_, err := state.MayLock(c.s, user("ben"), "B", false)
		f := fault.From(err)
		doc, ok := f.Detail.(state.LockInfo)
		if !ok || doc.ID != c.id || doc.Info != c.info || f.Kind != fault.Locked {
			t.Errorf("%s: kind %s, document %+v; want locked, id %q, info %q", name, f.Kind, f.Detail, c.id, c.info)
		}
		if !strings.Contains(f.Hint, c.id) || !strings.Contains(f.Public, c.info) {
			t.Errorf("%s: %q, hint %q; want the holder and the way to release", name, f.Public, f.Hint)
		}
	}
}

func TestNames(t *testing.T) {
	for _, good := range []string{"a", "Network-core.1_x", "0", "a..b", strings.Repeat("x", 128)} {
		if err := state.CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "..", ".a", "-a", "_a", "a/b", "a b", "ä", "a\x00", "a%2f", strings.Repeat("x", 129), "../etc", `a\b`} {
		if err := state.CheckName(bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v, want invalid", bad, err)
		}
	}
}
