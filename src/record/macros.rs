//! The macro [`record!`](crate::record!), and the parts shared with [`choice!`](crate::choice!).
//!
//! The macros turn a definition into a plain type, a table of its fields, and thin calls into code
//! shared by all records. Their documentation describes everything a user sees.
//!
//! Invariants:
//! - The output uses `$crate` or `::core` paths and defines no item that could clash with a name of
//!   the user's.
//! - A default is evaluated with only the user's own names in scope.

/// Defines a struct that is read from and written to a JSON object, and its schema.
///
/// ```
/// use tinymcp::{choice, json, record};
///
/// choice! {
///     /// Output level
///     #[derive(Debug, PartialEq)]
///     pub enum Level { Low = "low", High = "high" }
/// }
///
/// record! {
///     /// Switches a pin.
///     #[derive(Debug)]
///     pub struct Switch {
///         /// Pin number in BCM counting
///         pub pin: u8 [0..=27],
///         /// Level to set
///         pub level: Level = Level::High,
///         /// Milliseconds to hold
///         pub hold: Option<u32>,
///         pub note: String [len ..=80] = "",
///         pub tags: Vec<String> [items ..=8, len 1..=20] = [],
///         pub dry_run as "dryRun": bool = false,
///     }
/// }
///
/// let doc = json!({"pin": 17, "hold": 250}).to_doc();
/// let switch = record::decode::<Switch>(doc.root()).unwrap();
/// assert_eq!((switch.pin, switch.level, switch.hold), (17, Level::High, Some(250)));
///
/// let doc = json!({"pin": 17, "holt": 250}).to_doc();
/// assert_eq!(
///     record::decode::<Switch>(doc.root()).unwrap_err().message,
///     "unknown member `holt`, did you mean `hold`? Allowed are `pin`; optional `level`, `hold`, \
///      `note`, `tags`, `dryRun`"
/// );
///
/// assert!(record::schema::<Switch>().as_str().starts_with(
///     r#"{"type":"object","description":"Switches a pin.","properties":{"pin":{"type":"integer","#
/// ));
/// ```
///
/// # Grammar
///
/// ```text
/// #[attributes] visibility struct Name {
///     #[attributes] visibility field [as "wireName"]: Type [[bounds]] [= default],
/// }
/// ```
///
/// | part | meaning |
/// |---|---|
/// | doc comments | become `description`: lines of a paragraph joined, empty lines kept; a field's comment wins over that of its type |
/// | other attributes | stay on the struct or field; `cfg` belongs before the macro and is not for fields |
/// | `as "wireName"` | the member's name in JSON, where it is not the field's |
/// | `Type` | `bool`, the integers up to 64 bits, `f32`, `f64`, `String`, `Vec<T>`, `char`, `PathBuf`, `NonZeroU8` to `NonZeroU64`, `[T; N]`, `BTreeMap<String, T>`, `HashMap<String, T>`, `Option<T>`, [`Json`](crate::json::Json) for any value, another record or choice, or any type that implements [`FromJson`](crate::record::FromJson) and [`ToJson`](crate::json::ToJson) |
/// | `[0..=27]`, `[1..]`, `[..=9]` | bounds of a number, or of the numbers in an `Option`, `Vec` or map |
/// | `[len 1..=80]` | bounds of a string's length in characters (Unicode code points), likewise |
/// | `[items ..=8]` | bounds of the number of elements of a `Vec` or members of a map; several bounds are separated by commas |
/// | `= default` | the member is optional; the value is in the schema as `default`. A `String` takes a literal, a `Vec` an array |
///
/// A member is required unless its type is `Option` or it has a default. An optional member may be
/// `null`, which counts as absent although the schema does not offer it. Unknown members are
/// rejected. A `None` is not written.
///
/// # Enums with data
///
/// An enum is an object whose member of the given name, the tag, selects the variant:
///
/// ```
/// use tinymcp::{json, record};
///
/// record! {
///     /// Action on a pin
///     #[derive(Debug, PartialEq)]
///     pub enum Action tagged "kind" {
///         Toggle,
///         /// Keeps the level for a time
///         Hold as "hold" { millis: u32 [1..=60_000], note: String = "" },
///     }
/// }
/// record! {
///     struct Switch { pin: u8, action: Action }
/// }
///
/// let doc = json!({"pin": 4, "action": {"kind": "hold", "millis": 250}}).to_doc();
/// let switch = record::decode::<Switch>(doc.root()).unwrap();
/// assert_eq!(switch.action, Action::Hold { millis: 250, note: String::new() });
///
/// let doc = json!({"pin": 4, "action": {"kind": "hold", "millis": 0}}).to_doc();
/// assert_eq!(
///     record::decode::<Switch>(doc.root()).err().unwrap().to_string(),
///     "/action/millis: expected an integer from 1 to 60000, got 0 (minimum)"
/// );
/// ```
///
/// A variant without `as "word"` has its own name in JSON. The fields of a variant have the grammar
/// of a struct's. An enum without data is a [`choice!`](crate::choice!).
///
/// # Limits
///
/// The macro accepts no type parameters. A record that contains itself does not compile, because
/// the schema of a record contains the schemas of its fields:
///
/// ```compile_fail
/// tinymcp::record! {
///     struct Tree { children: Vec<Tree> }
/// }
/// ```
///
/// These do not compile either: bounds of the wrong kind, empty ranges, duplicate names, a default
/// for an `Option`:
///
/// ```compile_fail
/// tinymcp::record! {
///     struct Wrong { on: bool [0..=1] }
/// }
/// ```
/// ```compile_fail
/// tinymcp::record! {
///     struct Wrong { hold: Option<u32> = Some(5) }
/// }
/// ```
/// ```compile_fail
/// tinymcp::record! {
///     struct Wrong { pin: u8 [9..=1] }
/// }
/// ```
/// ```compile_fail
/// tinymcp::record! {
///     struct Wrong { pin: u8, other as "pin": u8 }
/// }
/// ```
#[macro_export]
macro_rules! record {
    (@define
        $(#[$($attribute:tt)*])*
        $vis:vis struct $name:ident {$(
            $(#[$($field_attribute:tt)*])*
            $field_vis:vis $field:ident $(as $wire:literal)? : $type:ty
            $([$($bounds:tt)*])? $(= $default:expr)?
        ),* $(,)?}
    ) => {
        $(#[$($attribute)*])*
        $vis struct $name {$(
            $(#[$($field_attribute)*])*
            $field_vis $field: $type,
        )*}

        #[automatically_derived]
        impl $crate::record::Record for $name {
            const DOC: &'static str = $crate::__record_doc!($([$($attribute)*])*);
            const FIELDS: &'static [$crate::record::generated::Field] = {
                $crate::record::generated::distinct(&[$((
                    $crate::__record_name!($field $($wire)?),
                    ::core::concat!("the name of `", ::core::stringify!($field), "` occurs twice"),
                )),*]);
                &[$($crate::__record_field!(
                    [$([$($field_attribute)*])*] $field $($wire)?, $type, [$($($bounds)*)?] $(, $default)?
                )),*]
            };
        }

        #[automatically_derived]
        impl $crate::record::FromJson for $name {
            const NESTING: u32 = 1 + $crate::record::generated::largest(&[
                $(<$type as $crate::record::FromJson>::NESTING),*
            ]);

            fn schema(w: &mut $crate::json::Writer, constraint: &$crate::record::Constraint) {
                $crate::record::generated::object_schema::<Self>(w, constraint);
            }

            fn from_json(
                value: $crate::json::Value<'_>,
                _: &$crate::record::Constraint,
            ) -> ::core::result::Result<Self, $crate::record::generated::ReadError> {
                let fields = <Self as $crate::record::Record>::FIELDS;
                let mut found = [
                    ::core::option::Option::None;
                    <Self as $crate::record::Record>::FIELDS.len()
                ];
                #[allow(unused_mut, unused_variables)]
                let mut members =
                    $crate::record::generated::Members::find(value, fields, &mut found)?;
                ::core::result::Result::Ok(Self {$(
                    $field: $crate::__record_preset!(@read members, $type $(, $default)?),
                )*})
            }
        }

        #[automatically_derived]
        impl $crate::json::ToJson for $name {
            fn write_json(&self, w: &mut $crate::json::Writer) {
                w.begin_object();
                $(
                    $crate::record::generated::write_member::<$type>(
                        w,
                        $crate::__record_name!($field $($wire)?),
                        &self.$field,
                    );
                )*
                w.end_object();
            }
        }

        // A record that contains itself has infinite nesting and does not compile.
        const _: u32 = <$name as $crate::record::FromJson>::NESTING;
    };
    // Brackets after a literal would be read as an index of it.
    (
        $(#[$($attribute:tt)*])*
        $vis:vis struct $name:ident {$(
            $(#[$($field_attribute:tt)*])*
            $field_vis:vis $field:ident $(as $wire:literal)? : $type:ty
            $([$($bounds:tt)*])? $(= $default:literal $([$($late:tt)*])?)?
        ),* $(,)?}
    ) => {
        $($($(::core::compile_error!(::core::concat!(
            "bounds are before the default: `", ::core::stringify!($field), ": ", ::core::stringify!($type),
            " [", ::core::stringify!($($late)*), "] = ", ::core::stringify!($default), "`",
        ));)?)?)*
        $crate::record! {@define
            $(#[$($attribute)*])*
            $vis struct $name {$(
                $(#[$($field_attribute)*])*
                $field_vis $field $(as $wire)? : $type $([$($bounds)*])? $(= $default)?
            ),*}
        }
    };
    (
        $(#[$($attribute:tt)*])*
        $vis:vis struct $name:ident {$($fields:tt)*}
    ) => {
        $crate::record! {@define
            $(#[$($attribute)*])*
            $vis struct $name {$($fields)*}
        }
    };
    (
        $(#[$($attribute:tt)*])*
        $vis:vis enum $name:ident tagged $tag:literal {$(
            $(#[$($variant_attribute:tt)*])*
            $variant:ident $(as $word:literal)? $({$(
                $(#[$($field_attribute:tt)*])*
                $field:ident $(as $wire:literal)? : $type:ty
                $([$($bounds:tt)*])? $(= $default:expr)?
            ),* $(,)?})?
        ),+ $(,)?}
    ) => {
        $(#[$($attribute)*])*
        $vis enum $name {$(
            $(#[$($variant_attribute)*])*
            $variant $({$(
                $(#[$($field_attribute)*])*
                $field: $type,
            )*})?,
        )+}

        #[automatically_derived]
        impl $crate::record::generated::Tagged for $name {
            const VARIANTS: &'static [$crate::record::generated::Variant] = {
                $crate::record::generated::distinct(&[$((
                    $crate::__record_name!($variant $($word)?),
                    ::core::concat!("the word of `", ::core::stringify!($variant), "` occurs twice"),
                )),+]);
                &[$({
                    $crate::record::generated::distinct(&[
                        ($tag, "a field has the name of the tag"),
                        $($((
                            $crate::__record_name!($field $($wire)?),
                            ::core::concat!(
                                "the name of `", ::core::stringify!($field),
                                "` occurs twice, or is that of the tag",
                            ),
                        )),*)?
                    ]);
                    $crate::record::generated::Variant {
                        name: $crate::__record_name!($variant $($word)?),
                        doc: $crate::__record_doc!($([$($variant_attribute)*])*),
                        fields: &[
                            $crate::record::generated::Field::tag($tag),
                            $($($crate::__record_field!(
                                [$([$($field_attribute)*])*] $field $($wire)?, $type,
                                [$($($bounds)*)?] $(, $default)?
                            )),*)?
                        ],
                    }
                }),+]
            };
        }

        #[automatically_derived]
        impl $crate::record::Record for $name {
            const DOC: &'static str = $crate::__record_doc!($([$($attribute)*])*);
            const FIELDS: &'static [$crate::record::generated::Field] = &[];
        }

        #[automatically_derived]
        impl $crate::record::FromJson for $name {
            const NESTING: u32 = 1 + $crate::record::generated::largest(&[
                $($($(<$type as $crate::record::FromJson>::NESTING,)*)?)+
            ]);

            fn schema(w: &mut $crate::json::Writer, constraint: &$crate::record::Constraint) {
                $crate::record::generated::variants_schema(
                    w,
                    constraint,
                    <Self as $crate::record::Record>::DOC,
                    $tag,
                    <Self as $crate::record::generated::Tagged>::VARIANTS,
                );
            }

            fn from_json(
                value: $crate::json::Value<'_>,
                _: &$crate::record::Constraint,
            ) -> ::core::result::Result<Self, $crate::record::generated::ReadError> {
                let variants = <Self as $crate::record::generated::Tagged>::VARIANTS;
                let mut found = [
                    ::core::option::Option::None;
                    $crate::record::generated::most_fields(
                        <$name as $crate::record::generated::Tagged>::VARIANTS,
                    )
                ];
                #[allow(unused_mut, unused_variables)]
                let (name, mut members) =
                    $crate::record::generated::Members::of_variant(value, $tag, variants, &mut found)?;
                $(
                    if name == $crate::__record_name!($variant $($word)?) {
                        return ::core::result::Result::Ok(Self::$variant {$($(
                            $field: $crate::__record_preset!(@read members, $type $(, $default)?),
                        )*)?});
                    }
                )+
                ::core::result::Result::Err($crate::record::generated::not_a_word(value, &[]))
            }
        }

        #[automatically_derived]
        impl $crate::json::ToJson for $name {
            fn write_json(&self, w: &mut $crate::json::Writer) {
                w.begin_object().key($tag);
                match self {$(
                    Self::$variant {$($($field,)*)?} => {
                        w.string($crate::__record_name!($variant $($word)?));
                        $($(
                            $crate::record::generated::write_member::<$type>(
                                w,
                                $crate::__record_name!($field $($wire)?),
                                $field,
                            );
                        )*)?
                    }
                )+}
                w.end_object();
            }
        }

        // As for a struct.
        const _: u32 = <$name as $crate::record::FromJson>::NESTING;
    };
    ($(#[$($attribute:tt)*])* $vis:vis enum $name:ident {$($inside:tt)*}) => {
        ::core::compile_error!(
            "an enum of words is defined with `choice!`; one with data names its tag: `enum Name tagged \"kind\" {…}`"
        );
    };
    ($(#[$($attribute:tt)*])* $vis:vis struct $name:ident ($($inside:tt)*) $(;)?) => {
        ::core::compile_error!("the fields of a record have names: `struct Name { field: Type }`");
    };
    ($(#[$($attribute:tt)*])* $vis:vis struct $name:ident < $($rest:tt)*) => {
        ::core::compile_error!("a record has no type parameters or lifetimes, because its schema is one constant");
    };
}

/// The row of a field in the table.
#[doc(hidden)]
#[macro_export]
macro_rules! __record_field {
    (
        [$([$($attribute:tt)*])*] $field:ident $($wire:literal)?, $type:ty, [$($bounds:tt)*]
        $(, $default:expr)?
    ) => {
        $crate::record::generated::Field::new::<$type>(
            $crate::__record_name!($field $($wire)?),
            $crate::__record_rule!(
                $type,
                $crate::record::Constraint::member($crate::__record_doc!($([$($attribute)*])*)),
                $($bounds)*
            ),
            $crate::__record_preset!(@write $type $(, $default)?),
            ::core::concat!(
                "`", ::core::stringify!($field),
                "` has a default, so it is never `None`: give it the type without `Option`",
            ),
        )
    };
}

/// The member name: the literal if there is one.
#[doc(hidden)]
#[macro_export]
macro_rules! __record_name {
    ($identifier:ident) => {
        const { $crate::record::generated::plain(::core::stringify!($identifier)) }
    };
    ($identifier:ident $wire:literal) => {
        $wire
    };
}

/// The doc comments among some attributes, one per line.
#[doc(hidden)]
#[macro_export]
macro_rules! __record_doc {
    ($([$($attribute:tt)*])*) => {
        ::core::concat!($($crate::__record_doc!(@line $($attribute)*)),*)
    };
    (@line doc = $line:expr) => { ::core::concat!($line, "\n") };
    (@line $($other:tt)*) => { "" };
}

/// Adds the bounds in brackets to a constraint, one after the other.
#[doc(hidden)]
#[macro_export]
macro_rules! __record_rule {
    ($type:ty, $constraint:expr $(,)?) => { $constraint };
    ($type:ty, $constraint:expr, len $range:expr $(, $($more:tt)*)?) => {
        $crate::__record_rule!(
            $type,
            $constraint.length($crate::record::generated::length::<$type>(
                $crate::record::generated::Ends::<usize, _>::new($range).pair(),
                ::core::concat!("empty range `", ::core::stringify!($range), "`"),
            )),
            $($($more)*)?
        )
    };
    ($type:ty, $constraint:expr, items $range:expr $(, $($more:tt)*)?) => {
        $crate::__record_rule!(
            $type,
            $constraint.items($crate::record::generated::items::<$type>(
                $crate::record::generated::Ends::<usize, _>::new($range).pair(),
                ::core::concat!("empty range `", ::core::stringify!($range), "`"),
            )),
            $($($more)*)?
        )
    };
    ($type:ty, $constraint:expr, $range:expr $(, $($more:tt)*)?) => {
        $crate::__record_rule!(
            $type,
            {
                let (min, max) = $crate::record::generated::Ends::<
                    <$type as $crate::record::generated::Ranged>::Number,
                    _,
                >::new($range).pair();
                if let (::core::option::Option::Some(min), ::core::option::Option::Some(max)) =
                    (min, max)
                {
                    ::core::assert!(
                        min <= max,
                        "{}",
                        ::core::concat!("empty range `", ::core::stringify!($range), "`"),
                    );
                }
                $constraint.range(
                    $crate::__record_rule!(@bits $type, min),
                    $crate::__record_rule!(@bits $type, max),
                )
            },
            $($($more)*)?
        )
    };
    // The casts convert primitive types; a trait cannot do it in a constant.
    (@bits $type:ty, $end:ident) => {
        match $end {
            ::core::option::Option::Some(end) => ::core::option::Option::Some(
                if $crate::record::generated::is_float::<$type>() {
                    (end as f64).to_bits()
                } else {
                    end as u64
                },
            ),
            ::core::option::Option::None => ::core::option::Option::None,
        }
    };
}

/// A default, in the table and when the field is read.
#[doc(hidden)]
#[macro_export]
macro_rules! __record_preset {
    (@write $type:ty) => {
        ::core::option::Option::None
    };
    (@write $type:ty, $default:expr) => {
        ::core::option::Option::Some(|w, constraint| {
            let value = $crate::record::generated::preset::<$type, _>($default);
            $crate::record::generated::write_preset::<$type>(w, constraint, &value)
        })
    };
    (@read $members:ident, $type:ty) => {
        $members.read::<$type>()?
    };
    (@read $members:ident, $type:ty, $default:expr) => {
        $members.read_or::<$type>(|| $crate::record::generated::preset::<$type, _>($default))?
    };
}
