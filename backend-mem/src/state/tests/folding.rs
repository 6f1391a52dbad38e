use super::*;

#[test]
fn a_reducing_state_folds_what_is_added() {
    let mut heap = heap(groups());
    let sums =
        ReducingState::<Utf8, Plain<i64>, Plain<i64>>::register(&mut heap, "op", "sums", groups(), |a, b| {
            a + b
        })
        .unwrap();
    assert_eq!(sums.get(&heap, ("k", &1)), Ok(None));
    for value in [5, -7, 9] {
        sums.add(&mut heap, ("k", &1), value).unwrap();
    }
    sums.add(&mut heap, ("k", &2), 100).unwrap();
    assert_eq!((sums.get(&heap, ("k", &1)), sums.get(&heap, ("k", &2))), (Ok(Some(7)), Ok(Some(100))));
    assert_eq!((sums.clear(&mut heap, ("k", &1)), sums.clear(&mut heap, ("k", &1))), (Ok(true), Ok(false)));
    assert_eq!(sums.get(&heap, ("k", &1)), Ok(None));
}

#[test]
fn a_reducing_state_may_grow_its_value() {
    let mut heap = heap(groups());
    let texts =
        ReducingState::<Utf8, Utf8>::register(&mut heap, "op", "texts", groups(), |a, b| a + &b).unwrap();
    (0..200).for_each(|_| texts.add(&mut heap, "k", "ab".into()).unwrap());
    assert_eq!(texts.get(&heap, "k"), Ok(Some("ab".repeat(200))));
}

/// The mean of numbers times a factor, as a sum and a count.
#[derive(Clone, Copy, Debug)]
struct Mean {
    factor: i64,
}

impl Aggregate for Mean {
    type Input = i64;
    type Accumulator = (Plain<i64>, Plain<u32>);
    type Output = i64;

    fn create(&self) -> (i64, u32) {
        (0, 0)
    }

    fn add(&self, (sum, count): (i64, u32), value: &i64) -> (i64, u32) {
        (sum + value * self.factor, count + 1)
    }

    fn result(&self, (sum, count): (i64, u32)) -> i64 {
        sum / i64::from(count)
    }
}

#[test]
fn an_aggregating_state_keeps_an_accumulator_and_gives_its_result() {
    let mut heap = heap(groups());
    let means = AggregatingState::register(&mut heap, "op", "means", groups(), Mean { factor: 10 }).unwrap();
    let means: AggregatingState<Utf8, Mean> = means;
    assert_eq!(means.get(&heap, "k"), Ok(None));
    for value in [1, 2, 6] {
        means.add(&mut heap, "k", &value).unwrap();
    }
    assert_eq!(means.get(&heap, "k"), Ok(Some(30)));
    assert_eq!(means.clear(&mut heap, "k"), Ok(true));
    assert_eq!(means.get(&heap, "k"), Ok(None));
    assert_eq!(
        heap.freeze().unwrap().states().next().unwrap().value,
        CodecId::fixed("aggregating((i64.1,u32.1).1)", 1, 12)
    );
}

#[test]
fn a_state_stays_of_its_kind() {
    let mut heap = heap(groups());
    let values = ValueState::<Utf8, Plain<i64>>::register(&mut heap, "op", "s", groups()).unwrap();
    let refused = |wanted| {
        let (operator, state, stored) = ("op".into(), "s".into(), ("i64".into(), 1));
        let refused = RefusedCodec { operator, state, of_keys: false, stored, wanted, cause: None };
        StateError::Refused(std::boxed::Box::new(refused))
    };
    let reducing = ReducingState::<Utf8, Plain<i64>>::register(&mut heap, "op", "s", groups(), |a, b| a + b)
        .unwrap_err();
    assert_eq!(reducing, refused(CodecId::fixed("reducing(i64.1)", 1, 8)));
    let list = ListState::<Utf8, Plain<i64>>::register(&mut heap, "op", "s", groups()).unwrap_err();
    assert_eq!(list, refused(CodecId::variable("list(i64.1)", 1)));
    assert_eq!(values.get(&heap, "k"), Ok(None));
}
