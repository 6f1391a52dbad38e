use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use serde::{Deserialize, Serialize, Serializer, ser};
use slackwater_core::key_group::{KeyGroup, MaxParallelism};

use super::*;
use crate::codec::{Plain, migrate};
use crate::heap::{Heap, HeapOptions};
use crate::state::ValueState;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    customer: String,
    items: Vec<(u32, Option<bool>)>,
    state: State,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    Open,
    Paid { cents: i64 },
}

impl SerdeData for Order {
    const NAME: &'static str = "order";
    const VERSION: u16 = 2;

    fn migration(stored: CodecId<'_>) -> Option<Migration> {
        ((stored.name, stored.version) == ("u32", 1))
            .then_some(|old, new| migrate::<Plain<u32>, Serde<Self>>(old, new, |items| order(items as usize)))
    }
}

fn order(items: usize) -> Order {
    let items = (0..).map(|number| (number, Some(true))).take(items).collect();
    Order { customer: "Ada".into(), items, state: State::Paid { cents: -5 } }
}

fn heap() -> (Heap, MaxParallelism) {
    let groups = MaxParallelism::new(1).unwrap();
    let key_groups = groups.all_key_groups();
    let options = HeapOptions { frame_size: 256, memory_limit_bytes: 8 << 20, key_groups, hash_seed: 3 };
    (Heap::new(options).unwrap(), groups)
}

#[test]
fn any_type_comes_back_whatever_its_length() {
    let (mut heap, groups) = heap();
    let orders = ValueState::<Serde<Order>, Serde<Order>>::register(&mut heap, "op", "s", groups).unwrap();
    for items in [0, 1, 20, 3_000] {
        orders.put(&mut heap, &order(items), &order(items + 1)).unwrap();
        assert_eq!(orders.get(&heap, &order(items)), Ok(Some(order(items + 1))));
    }
    let open = Order { state: State::Open, ..order(0) };
    assert_eq!(orders.get(&heap, &open), Ok(None));
}

#[test]
fn bytes_that_are_not_all_of_an_item_are_malformed() {
    let bytes = Serde::<Order>::encoded(&order(2), <[u8]>::to_vec).unwrap();
    assert_eq!(bytes, [3, b'A', b'd', b'a', 2, 0, 1, 1, 1, 1, 1, 1, 9]);
    let decode = |bytes: &[u8]| Serde::<Order>::decode(&Value::inline(bytes));
    assert_eq!(decode(&bytes), Ok(order(2)));
    let malformed = |len| Err(Malformed { codec: CodecId::variable("order", 2), len });
    for len in 0..bytes.len() {
        assert_eq!(decode(&bytes[..len]), malformed(len));
    }
    assert_eq!(decode(&[&*bytes, &[0]].concat()), malformed(bytes.len() + 1));
    assert_eq!(decode(&[3, b'A', b'd', b'a', 255, 255, 255, 255, 15]), malformed(9));
}

#[test]
fn the_hash_for_the_key_group_is_that_of_the_bytes() {
    let bytes = Serde::<Order>::encoded(&order(2), <[u8]>::to_vec).unwrap();
    assert_eq!(Serde::<Order>::key_group_hash(&order(2)), hash_of_bytes(&bytes));
}

#[derive(Debug, Deserialize)]
struct Stubborn;

impl Serialize for Stubborn {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(ser::Error::custom("never"))
    }
}

impl SerdeData for Stubborn {
    const NAME: &'static str = "stubborn";
    const VERSION: u16 = 1;
}

#[test]
fn an_item_that_serde_refuses_is_an_error_and_nothing_is_written() {
    let (mut heap, groups) = heap();
    let state = ValueState::<Plain<u8>, Serde<Stubborn>>::register(&mut heap, "op", "s", groups).unwrap();
    let refused = state.put(&mut heap, &1, &Stubborn).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "codec stubborn version 1 cannot encode an item: its implementation of Serialize refuses"
    );
    assert!(heap.is_empty(state.id()));
}

#[test]
fn an_older_encoding_is_migrated() {
    let (mut heap, groups) = heap();
    let numbers = ValueState::<Plain<u8>, Plain<u32>>::register(&mut heap, "op", "s", groups).unwrap();
    numbers.put(&mut heap, &1, &300).unwrap();
    let orders = ValueState::<Plain<u8>, Serde<Order>>::register(&mut heap, "op", "s", groups).unwrap();
    assert_eq!(orders.get(&heap, &1), Ok(Some(order(300))));
    heap.put(orders.id(), KeyGroup(0), &[2], &vec![0xff; 700]).unwrap();
    assert!(orders.get(&heap, &2).is_err());
}
