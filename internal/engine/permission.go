package engine

import (
	"context"

	"holdfast.dev/holdfast/internal/access"
)

// PermissionRole is the lowest role that has a permission in an organization.
type PermissionRole struct {
	Permission  access.Permission
	Role        access.Role // or access.Disabled
	Default     access.Role // where no administrator has changed it
	Allocatable bool
}

func permissionRole(l access.Allocation, p access.Permission) PermissionRole {
	return PermissionRole{Permission: p, Role: l.Lowest(p), Default: access.Lowest(p), Allocatable: access.Allocatable(p)}
}

// Permissions lists by name what the roles of the organization may do.
func (e *Engine) Permissions(_ context.Context, actor access.Actor) ([]PermissionRole, error) {
	if err := actor.Allow(access.PermissionRead); err != nil {
		return nil, err
	}
	var all []PermissionRole
	for _, p := range access.RolePermissions() {
		all = append(all, permissionRole(actor.Allocation, p))
	}
	return all, nil
}

// AllocatePermission gives a permission on states to a role and those above it, or to nobody. It holds from the next
// request on, on every server, for people and for the steps of runs, which act as operator.
func (e *Engine) AllocatePermission(ctx context.Context, actor access.Actor, permission, role string) (PermissionRole, error) {
	if err := actor.Allow(access.UserManage); err != nil {
		return PermissionRole{}, err
	}
	p, err := access.ParseAllocatable(permission)
	if err != nil {
		return PermissionRole{}, err
	}
	r, err := access.ParseAllocated(role)
	if err != nil {
		return PermissionRole{}, err
	}
	var after access.Allocation
	err = e.store.Update(ctx, func(tx Tx) error {
		// The end of the audit chain is the organization's lock: what the record says was before has to be true.
		if _, err := tx.AuditTail(ctx, actor.Org); err != nil {
			return err
		}
		before, err := tx.Allocation(ctx, actor.Org)
		if err != nil {
			return err
		}
		after = before.With(p, r)
		if before.Lowest(p) == r {
			return nil
		}
		if err := tx.Allocate(ctx, actor.Org, p, r); err != nil {
			return err
		}
		return e.record(ctx, tx, actor, "permission.allocate", permission, map[string]any{"role": r, "role_before": before.Lowest(p)})
	})
	return permissionRole(after, p), err
}
