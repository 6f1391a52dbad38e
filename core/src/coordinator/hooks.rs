//! The names of hooks, and which of them gets which state on restore (Flink: `MasterHooks`).

use core::fmt;

use heapless::Vec;

/// Up to `HOOKS` hooks in the order of their registration. The coordinator knows them by their index.
#[derive(Clone, Debug, Default)]
pub struct Hooks<'a, const HOOKS: usize> {
    names: Vec<&'a str, HOOKS>,
}

/// A hook to be restored: its index, and the index of its state; none if it has to be reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookRestore {
    /// The hook.
    pub hook: u16,
    /// Which of the states is its own.
    pub state: Option<usize>,
}

/// What is wrong with hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidHooks {
    /// A name is empty, or nothing but white space.
    BlankName,
    /// There is no room for another hook.
    TooMany,
    /// The state of this index belongs to no hook.
    UnknownState(usize),
}

impl fmt::Display for InvalidHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BlankName => write!(f, "a hook needs a name"),
            Self::TooMany => write!(f, "too many hooks"),
            Self::UnknownState(index) => {
                write!(
                    f,
                    "state {index} belongs to no hook: register its hook, or allow states to be dropped"
                )
            }
        }
    }
}

impl core::error::Error for InvalidHooks {}

impl<'a, const HOOKS: usize> Hooks<'a, HOOKS> {
    /// No hooks.
    #[must_use]
    pub const fn new() -> Self {
        Self { names: Vec::new() }
    }

    /// Registers a hook and gives its index; none if one of that name is there already (rule P31).
    ///
    /// # Errors
    /// [`InvalidHooks`]; nothing is registered.
    pub fn register(&mut self, name: &'a str) -> Result<Option<u16>, InvalidHooks> {
        if name.trim().is_empty() {
            return Err(InvalidHooks::BlankName);
        }
        if self.names.contains(&name) {
            return Ok(None);
        }
        let index = u16::try_from(self.names.len()).map_err(|_| InvalidHooks::TooMany)?;
        self.names.push(name).map_err(|_| InvalidHooks::TooMany)?;
        Ok(Some(index))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u16 {
        u16::try_from(self.names.len()).unwrap_or(u16::MAX)
    }

    /// In which order hooks are restored from states of these names: those with a state in the order of the states,
    /// then the others. Nothing is to be done without states. With `drops_unknown`, a state without a hook is left
    /// out (rule P33).
    ///
    /// # Errors
    /// [`InvalidHooks::UnknownState`]: no hook has been restored yet.
    pub fn restore_order(
        &self,
        states: &[&str],
        drops_unknown: bool,
    ) -> Result<Vec<HookRestore, HOOKS>, InvalidHooks> {
        let mut order: Vec<HookRestore, HOOKS> = Vec::new();
        if states.is_empty() || self.names.is_empty() {
            return Ok(order);
        }
        for (index, state) in states.iter().enumerate() {
            let named = (0u16..).zip(&self.names).find(|(_, name)| *name == state).map(|(hook, _)| hook);
            let free = named.filter(|hook| !order.iter().any(|other| other.hook == *hook));
            match free {
                Some(hook) => push(&mut order, HookRestore { hook, state: Some(index) })?,
                None if drops_unknown => {}
                None => return Err(InvalidHooks::UnknownState(index)),
            }
        }
        for hook in 0..self.count() {
            if !order.iter().any(|other| other.hook == hook) {
                push(&mut order, HookRestore { hook, state: None })?;
            }
        }
        Ok(order)
    }
}

fn push<const HOOKS: usize>(
    order: &mut Vec<HookRestore, HOOKS>,
    next: HookRestore,
) -> Result<(), InvalidHooks> {
    order.push(next).map_err(|_| InvalidHooks::TooMany)
}

#[cfg(test)]
mod tests {
    use super::{HookRestore, Hooks, InvalidHooks};

    const fn restore(hook: u16, state: Option<usize>) -> HookRestore {
        HookRestore { hook, state }
    }

    fn hooks() -> Hooks<'static, 3> {
        let mut hooks = Hooks::new();
        assert_eq!(["a", "b", "c"].map(|name| hooks.register(name)), [Ok(Some(0)), Ok(Some(1)), Ok(Some(2))]);
        hooks
    }

    #[test]
    fn p31_names_of_hooks_are_not_blank_and_different() {
        let mut hooks = Hooks::<2>::new();
        assert_eq!(hooks.register(" \t"), Err(InvalidHooks::BlankName));
        assert_eq!(hooks.register("a"), Ok(Some(0)));
        assert_eq!(hooks.register("a"), Ok(None));
        assert_eq!(hooks.register("b"), Ok(Some(1)));
        assert_eq!(hooks.register("c"), Err(InvalidHooks::TooMany));
        assert_eq!(hooks.register("b"), Ok(None));
        assert_eq!(hooks.count(), 2);
    }

    #[test]
    fn p33_states_are_paired_before_any_hook_is_called_and_hooks_without_one_come_last() {
        let hooks = hooks();
        let order = hooks.restore_order(&["c", "a"], false).unwrap();
        assert_eq!(order[..], [restore(2, Some(0)), restore(0, Some(1)), restore(1, None)]);
        for states in [&["x"][..], &["a", "x"], &["a", "b", "x"]] {
            let at = states.len() - 1;
            assert_eq!(hooks.restore_order(states, false), Err(InvalidHooks::UnknownState(at)));
        }
        let order = hooks.restore_order(&["x", "b"], true).unwrap();
        assert_eq!(order[..], [restore(1, Some(1)), restore(0, None), restore(2, None)]);
        assert_eq!(hooks.restore_order(&["a", "a"], false), Err(InvalidHooks::UnknownState(1)), "one each");
        assert_eq!(hooks.restore_order(&[], false).unwrap()[..], []);
        assert_eq!(Hooks::<3>::new().restore_order(&["x"], false).unwrap()[..], [], "no hooks");
    }
}
