package tofu

// Progress counts, from the lines of a command, how far it is. The lines are for people: nothing is decided by them.
type Progress struct {
	Planned   int    `json:"planned"` // operations to do, from the plan; a replacement is two
	Done      int    `json:"done"`
	Failed    int    `json:"failed"`
	Running   int    `json:"running"`
	Refreshed int    `json:"refreshed"` // objects read while planning
	Last      string `json:"last"`      // address the newest line was about
}

// See takes a line into account.
func (p *Progress) See(l Line) {
	if l.Resource != "" {
		p.Last = l.Resource
	}
	switch l.Type {
	case "refresh_complete":
		p.Refreshed++
	case "planned_change": // before an apply of a saved plan, which has no summary, too
		switch l.Action {
		case "create", "update", "delete":
			p.Planned++
		case "replace":
			p.Planned += 2
		}
	case "change_summary":
		if l.Changes != nil && l.Changes.Operation == "plan" {
			p.Planned = l.Changes.Add + l.Changes.Change + l.Changes.Remove
		}
	case "apply_start", "apply_complete", "apply_errored":
		if l.Action != "create" && l.Action != "update" && l.Action != "delete" {
			return // reads are not part of what was planned
		}
		p.operation(l.Type)
	}
}

func (p *Progress) operation(kind string) {
	if kind == "apply_start" {
		p.Running++
		return
	}
	p.Running = max(p.Running-1, 0)
	if kind == "apply_complete" {
		p.Done++
	} else {
		p.Failed++
	}
	p.Planned = max(p.Planned, p.Done+p.Failed) // never "4 of 3"
}
